-- The deliveries of events ?1 (JSON array) for destinations ?2 (JSON array), in status ?3 and of
-- topic ?4 only if they are given, after the delivery of event ?5 for destination ?7, at most ?6.
SELECT {delivery_columns}
FROM outbox_delivery d
CROSS JOIN outbox_event e ON e.seq = d.event_seq
CROSS JOIN outbox_destination lane ON lane.id = d.destination_id
WHERE d.destination_id IN (SELECT value FROM json_each(?2))
  AND d.event_seq IN (SELECT value FROM json_each(?1))
  AND d.event_seq >= ?5
  AND (d.event_seq > ?5 OR d.destination_id > ?7)
  AND (?3 IS NULL OR d.status = ?3)
  AND (?4 IS NULL OR e.topic = ?4)
ORDER BY d.event_seq, d.destination_id
LIMIT ?6
