-- Deliveries of the tenant $1, the destination $2, the topic $3, the status $4, of events after $5,
-- and of $5 itself those of destinations after $7, each where it is given; at most $6. Planned anew for
-- each question, so that what is not given falls away.
select {delivery_columns}
from {schema}outbox_delivery d
join {schema}outbox_event event on event.seq = d.event_seq
join {schema}outbox_destination destination on destination.id = d.destination_id
where ($1::text is null or d.tenant_id = $1)
  and ($2::text is null
       or d.destination_id = (select id from {schema}outbox_destination where name = $2))
  and ($3::text is null or event.topic = $3)
  and ($4::smallint is null or d.status = $4)
  and ($5::bigint is null
       or (d.event_seq >= $5
           and (d.event_seq > $5
                or d.destination_id > (select id from {schema}outbox_destination where name = $7::text))))
order by d.event_seq, d.destination_id
limit $6
