-- Up to ?4 dead letters of destination ?1 after event ?3, of tenant ?2 only if it is given. With
-- ?5 = 0, not those that a claim would bury again because they have expired.
SELECT destination_id, event_seq, tenant_id, partition_key
FROM outbox_delivery INDEXED BY outbox_delivery_dead
WHERE destination_id = ?1
  AND event_seq > ?3
  AND status = 2
  AND (?2 IS NULL OR tenant_id = ?2)
  AND (?5 OR expires_at IS NULL OR expires_at > {now})
ORDER BY event_seq
LIMIT ?4
