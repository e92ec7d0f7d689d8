-- Ordered lanes, first step: locks up to $2 due deliveries of destination $1 in due order and tries
-- to lock their keys. Waits for nothing: a row or a key that another holds is left to it.
-- Nothing while the lane keeps another order than $4.
with lane as materialized (
    select
    from {schema}outbox_destination
    where id = $1
      and ordering = $4
      and (state = 'active' or (state = 'paused' and probe_token = $3 and probe_until > {statement_now}))
),
due as materialized (
    select event_seq, tenant_id, partition_key
    from {schema}outbox_delivery
    where destination_id = $1
      and status = 0
      and not parked
      and {which}
      and due_at <= {statement_now}
      and (lease_until is null or lease_until <= {statement_now})
      and exists (select from lane)
    order by due_at, event_seq
    limit $2
    for update skip locked
),
key as materialized (
    select tenant_id,
           partition_key,
           pg_try_advisory_xact_lock(
               hashtextextended(octet_length(tenant_id) || ':' || tenant_id || partition_key, $1)) as is_held
    from (select distinct tenant_id, partition_key from due where partition_key is not null) distinct_key
)
select due.event_seq, due.tenant_id, due.partition_key
from due
left join key on key.tenant_id = due.tenant_id and key.partition_key = due.partition_key
where due.partition_key is null or key.is_held
