-- Up to $2 unclaimed deliveries of the destinations $1 whose expiry has passed become dead letters.
-- Their locks may be taken in any order, because it waits for none.
with expired as materialized (
    select delivery.destination_id, delivery.event_seq
    from unnest($1::bigint[]) as destination (id)
    cross join lateral (
        select d.destination_id, d.event_seq
        from {schema}outbox_delivery d
        where d.destination_id = destination.id
          and d.status = 0
          and d.expires_at is not null
          and d.expires_at <= {statement_now}
          and d.claim_token is null
        order by d.expires_at
        limit $2
        for update skip locked
    ) delivery
    limit $2
)
update {schema}outbox_delivery d
set status = 2,
    parked = false,
    disposition = 'expired',
    finished_at = {statement_now}
from expired
where d.destination_id = expired.destination_id
  and d.event_seq = expired.event_seq
  and d.event_seq = any (array(select event_seq from expired))
returning d.destination_id, d.tenant_id, d.partition_key
