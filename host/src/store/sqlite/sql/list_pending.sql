-- The same for pending deliveries only, which are few among many: walks their own index, whatever the
-- planner thinks of it.
SELECT d.event_seq,
       d.tenant_id,
       e.event_id,
       e.topic,
       d.partition_key,
       lane.name AS destination,
       d.status,
       d.attempts,
       d.deferrals,
       d.lost,
       d.fence,
       d.due_at,
       d.lease_until,
       d.claimed_by,
       d.disposition,
       d.reference,
       d.last_error,
       d.uncertain,
       e.created_at,
       d.finished_at
FROM outbox_delivery d INDEXED BY outbox_delivery_pending
CROSS JOIN outbox_event e ON e.seq = d.event_seq
CROSS JOIN outbox_destination lane ON lane.id = d.destination_id
WHERE d.destination_id IN (SELECT value FROM json_each(?1))
  AND d.event_seq > ?5
  AND d.status = 0
  AND ?3 = 0
  AND (?2 IS NULL OR d.tenant_id = ?2)
  AND (?4 IS NULL OR e.topic = ?4)
ORDER BY d.event_seq, d.destination_id
LIMIT ?6
