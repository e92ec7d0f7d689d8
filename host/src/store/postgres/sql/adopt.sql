-- Looks at up to $2 events after $1 and gives up to $3 of those without any delivery theirs.
with seen as materialized (
    select seq from {schema}outbox_event where seq > $1 order by seq limit $2
),
bounds as materialized (
    select min(seq) as first_seq, max(seq) as last_seq, count(*) as examined from seen
),
known as materialized (
    -- One range of the primary key for each destination; an index on event_seq alone would cost
    -- every claim a write.
    select delivery.event_seq
    from bounds
    cross join {schema}outbox_destination destination
    cross join lateral (
        select d.event_seq
        from {schema}outbox_delivery d
        where d.destination_id = destination.id and d.event_seq between bounds.first_seq and bounds.last_seq
        offset 0
    ) delivery
),
orphan as materialized (
    select seq from seen
    except
    select event_seq from known
    order by seq
    limit $3
),
inserted as (
    insert into {schema}outbox_delivery
        (destination_id, event_seq, status, due_at, expires_at, tenant_id, partition_key)
    select coalesce(route.destination_id, 0),
           event.seq,
           case when route.destination_id is null then 4 else 0 end,
           least(greatest(event.available_at, {statement_now}), event.expires_at),
           event.expires_at,
           event.tenant_id,
           event.partition_key
    from orphan
    join {schema}outbox_event event on event.seq = orphan.seq
    left join lateral (
        select distinct r.destination_id
        from {schema}outbox_route r
        where {schema}outbox_topic_matches(r.pattern, event.topic)
    ) route on true
    on conflict do nothing
)
select bounds.examined,
       bounds.last_seq,
       (select count(*) from orphan) as adopted,
       (select max(seq) from orphan) as last_adopted
from bounds
