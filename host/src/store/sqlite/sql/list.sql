-- Deliveries for destinations ?1 (JSON array) in the order of their events, of tenant ?2, in status
-- ?3 and of topic ?4 only if they are given, after the delivery of event ?5 for destination ?7, at most ?6.
SELECT {delivery_columns}
FROM outbox_event e
CROSS JOIN outbox_delivery d ON d.event_seq = e.seq AND d.destination_id IN (SELECT value FROM json_each(?1))
CROSS JOIN outbox_destination lane ON lane.id = d.destination_id
WHERE e.seq >= ?5
  AND (e.seq > ?5 OR d.destination_id > ?7)
  AND (?2 IS NULL OR e.tenant_id = ?2)
  AND (?3 IS NULL OR d.status = ?3)
  AND (?4 IS NULL OR e.topic = ?4)
ORDER BY e.seq, d.destination_id
LIMIT ?6
