-- Dead letters become pending again, up to $4: the first $5 microseconds from now, each $6 after the
-- one before. What has expired only if $7, and then its expiry is ignored for good.
-- Of the destinations $1, the events $2 and the tenant $3, where they are given.
with found as materialized (
    select d.destination_id, d.event_seq
    from {schema}outbox_delivery d
    where d.destination_id = any ($1)
      and ($2::bigint[] is null or d.event_seq = any ($2))
      and ($3::text is null or d.tenant_id = $3)
      and d.status = 2
      and ($7 or d.expires_at is null or d.expires_at > {statement_now})
    order by d.event_seq, d.destination_id
    limit $4
    for update
),
target as materialized (
    select destination_id, event_seq, row_number() over (order by event_seq, destination_id) - 1 as place
    from found
)
update {schema}outbox_delivery d
set status = 0,
    attempts = 0,
    expires_at = case when $7 then null else d.expires_at end,
    due_at = least(
        {statement_now} + ($5 + $6 * target.place) * interval '1 microsecond',
        case when $7 then null else d.expires_at end),
    first_claimed_at = null,
    disposition = null,
    finished_at = null
from target
where d.destination_id = target.destination_id
  and d.event_seq = target.event_seq
returning d.destination_id, d.tenant_id, d.partition_key
