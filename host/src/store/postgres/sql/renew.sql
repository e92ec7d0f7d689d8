-- Extends claims whose token and unexpired lease still match to $5 microseconds from this moment.
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
),
-- The clock is read once a row, after the wait for its lock: a due time that lies even a
-- microsecond before the end of the lease would let a claim meet a living lease.
extended as materialized (
    select destination_id, event_seq, place, {now} + $5 * interval '1 microsecond' as lease_until
    from held
)
update {schema}outbox_delivery d
set lease_until = extended.lease_until,
    due_at = extended.lease_until
from extended
join claim c using (place)
where d.destination_id = extended.destination_id
  and d.event_seq = extended.event_seq
  and d.status = 0
  and d.claim_token = c.token
  and d.fence = c.fence
  and d.lease_until > {now}
returning c.place
