-- Looks at up to $2 unrouted events after $1 and gives those that a route matches their deliveries,
-- in place of the reserved one.
with unrouted as materialized (
    select event_seq
    from {schema}outbox_delivery
    where destination_id = 0 and status = 4 and event_seq > $1
    order by event_seq
    limit $2
    for update skip locked
),
matched as materialized (
    select distinct event.seq, event.available_at, event.expires_at, event.tenant_id, event.partition_key,
           route.destination_id
    from unrouted
    join {schema}outbox_event event on event.seq = unrouted.event_seq
    join {schema}outbox_route route on {schema}outbox_topic_matches(route.pattern, event.topic)
),
inserted as (
    insert into {schema}outbox_delivery
        (destination_id, event_seq, status, due_at, expires_at, tenant_id, partition_key)
    select destination_id, seq, 0, least(greatest(available_at, {statement_now}), expires_at), expires_at, tenant_id,
           partition_key
    from matched
    on conflict do nothing
    returning 1
),
removed as (
    delete from {schema}outbox_delivery
    where destination_id = 0 and event_seq = any (array(select seq from matched))
)
select (select count(*) from inserted) as routed,
       (select count(*) from unrouted) as examined,
       (select max(event_seq) from unrouted) as last_seq,
       (select coalesce(max(generation), 0) from {schema}outbox_generation) as generation
