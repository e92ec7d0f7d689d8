-- The events of ID ?1, of tenant ?2 only if it is given.
SELECT seq
FROM outbox_event
WHERE event_id = ?1
  AND (?2 IS NULL OR tenant_id = ?2)
