-- Gives back claims that were not started, each with its attempt; due at once.
with claim as materialized (
    select *
    from unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::bigint[])
        with ordinality as c (destination_id, event_seq, token, fence, place)
),
held as materialized (
    select d.destination_id, d.event_seq, c.place
    from claim c
    join {schema}outbox_delivery d on d.destination_id = c.destination_id and d.event_seq = c.event_seq
    where d.claim_token = c.token
    order by d.destination_id, d.event_seq
    for update of d
)
update {schema}outbox_delivery d
set attempts = d.attempts - 1,
    claim_token = null,
    lease_until = null,
    claimed_by = null,
    due_at = least({now}, d.expires_at)
from held
join claim c using (place)
where d.destination_id = held.destination_id
  and d.event_seq = held.event_seq
  and d.status = 0
  and d.claim_token = c.token
  and d.fence = c.fence
  and d.lease_until > {now}
returning c.place, d.destination_id, d.tenant_id, d.partition_key
