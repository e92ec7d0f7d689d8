-- The history of event ?1, by destination and fence.
SELECT lane.name AS destination, a.fence, a.attempt, a.host, a.started_at, a.ended_at, a.outcome, a.code,
       a.message, a.uncertain, a.component_digest
FROM outbox_attempt a
CROSS JOIN outbox_destination lane ON lane.id = a.destination_id
WHERE a.event_seq = ?1
ORDER BY lane.name, a.fence
