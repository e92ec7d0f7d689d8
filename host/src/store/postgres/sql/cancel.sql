-- Pending deliveries become cancelled, up to $4. The token goes, so that a late result is fenced; a
-- live lease stays, so that its key waits.
-- Of the destinations $1, the events $2 and the tenant $3, where they are given.
with chosen as materialized (
    select d.destination_id, d.event_seq
    from {schema}outbox_delivery d
    where d.destination_id = any ($1)
      and ($2::bigint[] is null or d.event_seq = any ($2))
      and ($3::text is null or d.tenant_id = $3)
      and d.status = 0
    order by d.event_seq, d.destination_id
    limit $4
),
-- Locked in the order of the primary key, as everything that ends a lease does, so that a cancel and
-- an acknowledgement never wait in a circle.
target as materialized (
    select d.destination_id, d.event_seq
    from chosen
    join {schema}outbox_delivery d
      on d.destination_id = chosen.destination_id and d.event_seq = chosen.event_seq
    where d.status = 0
    order by d.destination_id, d.event_seq
    for update of d
)
update {schema}outbox_delivery d
set status = 3,
    parked = false,
    claim_token = null,
    claimed_by = null,
    lease_until = case when d.lease_until > {now} then d.lease_until end,
    disposition = 'cancelled',
    finished_at = {now}
from target
where d.destination_id = target.destination_id
  and d.event_seq = target.event_seq
returning d.destination_id, d.tenant_id, d.partition_key
