-- Deliveries for destinations ?1 (JSON array) in the order of their events, of tenant ?2, in status
-- ?3 and of topic ?4 only if they are given, after event ?5, at most ?6.
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
FROM outbox_event e
CROSS JOIN outbox_delivery d ON d.event_seq = e.seq AND d.destination_id IN (SELECT value FROM json_each(?1))
CROSS JOIN outbox_destination lane ON lane.id = d.destination_id
WHERE e.seq > ?5
  AND (?2 IS NULL OR e.tenant_id = ?2)
  AND (?3 IS NULL OR d.status = ?3)
  AND (?4 IS NULL OR e.topic = ?4)
ORDER BY e.seq, d.destination_id
LIMIT ?6
