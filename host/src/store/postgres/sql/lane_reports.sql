-- Each destination with its backlog; no count goes beyond $1, so that a status over ten million
-- rows is quick.
select destination.id,
       destination.name,
       destination.state,
       destination.paused_until,
       destination.reason,
       {now} as now,
       least(waiting.count, $1) as pending,
       least(leased.count, $1) as leased,
       dead.count as dead,
       (select created_at from {schema}outbox_event where seq = waiting.oldest_seq) as oldest_pending
from {schema}outbox_destination destination
cross join lateral (
    select count(*) as count, min(event_seq) as oldest_seq
    from (
        (
            select event_seq from {schema}outbox_delivery
            where destination_id = destination.id and status = 0 and not parked and {ordinary}
            order by due_at, event_seq limit $1
        )
        union all
        (
            select event_seq from {schema}outbox_delivery
            where destination_id = destination.id and status = 0 and not parked and {suspect}
            order by due_at, event_seq limit $1
        )
        union all
        (
            select event_seq from {schema}outbox_delivery
            where destination_id = destination.id and parked
            order by tenant_id, partition_key, event_seq limit $1
        )
        union all
        (
            select event_seq from {schema}outbox_delivery
            where destination_id = destination.id and destination.id = 0
            order by event_seq limit $1
        )
    ) row
) waiting
cross join lateral (
    -- A lease moves due_at to its end, so leased rows are among the next that become due.
    select count(*) as count
    from (
        (
            select claim_token from {schema}outbox_delivery
            where destination_id = destination.id and status = 0 and not parked and {ordinary}
              and due_at > {statement_now}
            order by due_at, event_seq limit $1
        )
        union all
        (
            select claim_token from {schema}outbox_delivery
            where destination_id = destination.id and status = 0 and not parked and {suspect}
              and due_at > {statement_now}
            order by due_at, event_seq limit $1
        )
    ) row
    where claim_token is not null
) leased
cross join lateral (
    select count(*) as count
    from (
        select from {schema}outbox_delivery
        where destination_id = destination.id and status = 2
        order by event_seq limit $1
    ) row
) dead
where destination.id > 0 or waiting.count > 0
order by destination.id
