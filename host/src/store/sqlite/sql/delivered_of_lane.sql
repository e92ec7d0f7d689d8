-- Up to ?4 delivered deliveries of destination ?1 after event ?3, of tenant ?2 only if it is given.
SELECT destination_id, event_seq, tenant_id, partition_key
FROM outbox_delivery
WHERE destination_id = ?1
  AND event_seq > ?3
  AND status = 1
  AND (?2 IS NULL OR tenant_id = ?2)
ORDER BY event_seq
LIMIT ?4
