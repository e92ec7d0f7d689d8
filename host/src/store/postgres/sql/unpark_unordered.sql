-- Up to $2 parked deliveries of those of the destinations $1 that keep no order (any more) go back.
update {schema}outbox_delivery d
set parked = false
from (
    select delivery.destination_id, delivery.event_seq
    from {schema}outbox_destination destination
    cross join lateral (
        select p.destination_id, p.event_seq
        from {schema}outbox_delivery p
        where p.destination_id = destination.id and p.parked
        limit $2
        for update skip locked
    ) delivery
    where destination.id = any ($1) and destination.ordering = 0
    limit $2
) parked
where d.destination_id = parked.destination_id and d.event_seq = parked.event_seq
