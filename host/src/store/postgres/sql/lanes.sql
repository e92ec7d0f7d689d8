-- For each destination in $1: its state, and by one-row probes of the due indexes what is due and
-- what is next.
select destination.id,
       destination.state,
       destination.epoch,
       destination.pauses,
       destination.paused_until,
       ordinary.due_at is not null as has_due,
       suspect.due_at is not null as has_due_suspect,
       coalesce(
           destination.state = 'paused'
           and destination.paused_until <= {statement_now}
           and (destination.probe_until is null or destination.probe_until <= {statement_now})
           and (ordinary.due_at is not null or suspect.due_at is not null), false) as wants_probe,
       least(next_ordinary.due_at, next_suspect.due_at) as next_due_at
from {schema}outbox_destination destination
left join lateral (
    select due_at from {schema}outbox_delivery
    where destination_id = destination.id and status = 0 and not parked and {ordinary} and due_at <= {statement_now}
      and (lease_until is null or lease_until <= {statement_now})
    order by due_at, event_seq limit 1
) ordinary on true
left join lateral (
    select due_at from {schema}outbox_delivery
    where destination_id = destination.id and status = 0 and not parked and {suspect} and due_at <= {statement_now}
      and (lease_until is null or lease_until <= {statement_now})
    order by due_at, event_seq limit 1
) suspect on true
left join lateral (
    select due_at from {schema}outbox_delivery
    where destination_id = destination.id and status = 0 and not parked and {ordinary} and due_at > {statement_now}
    order by due_at, event_seq limit 1
) next_ordinary on true
left join lateral (
    select due_at from {schema}outbox_delivery
    where destination_id = destination.id and status = 0 and not parked and {suspect} and due_at > {statement_now}
    order by due_at, event_seq limit 1
) next_suspect on true
where destination.id = any ($1)
