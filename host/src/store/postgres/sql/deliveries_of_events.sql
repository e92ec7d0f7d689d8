-- Deliveries of the events $1, the destination $2, the topic $3, the status $4, of events after $5,
-- and of $5 itself those of destinations after $7, each where it is given; at most $6. By
-- destination and event: no index is on the event alone.
select {delivery_columns}
from unnest($1::bigint[]) as wanted (seq)
join {schema}outbox_event event on event.seq = wanted.seq
cross join {schema}outbox_destination destination
cross join lateral (
    select *
    from {schema}outbox_delivery
    where destination_id = destination.id and event_seq = wanted.seq
    offset 0
) d
where ($2::text is null or destination.name = $2)
  and ($3::text is null or event.topic = $3)
  and ($4::smallint is null or d.status = $4)
  and ($5::bigint is null
       or (d.event_seq >= $5
           and (d.event_seq > $5
                or d.destination_id > (select id from {schema}outbox_destination where name = $7::text))))
order by d.event_seq, d.destination_id
limit $6
