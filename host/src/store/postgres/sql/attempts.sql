-- The history of event $1.
select destination.name as destination, a.fence, a.attempt, a.host, a.started_at, a.ended_at, a.outcome, a.code,
       a.message, a.uncertain, a.component_digest
from {schema}outbox_attempt a
join {schema}outbox_destination destination on destination.id = a.destination_id
where a.event_seq = $1
order by a.destination_id, a.fence
