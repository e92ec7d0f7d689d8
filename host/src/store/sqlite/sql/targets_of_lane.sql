-- Up to ?5 deliveries in status ?1 of destination ?2 after event ?4, of tenant ?3 only if it is given.
SELECT destination_id, event_seq, tenant_id, partition_key
FROM outbox_delivery
WHERE destination_id = ?2
  AND event_seq > ?4
  AND status = ?1
  AND (?3 IS NULL OR tenant_id = ?3)
ORDER BY event_seq
LIMIT ?5
