-- Deliveries in status ?1 of events ?2 for destinations ?3 (JSON arrays): what an act on named
-- events means. At most ?4. With ?5 = 0, no dead letters that have expired.
SELECT destination_id, event_seq, tenant_id, partition_key
FROM outbox_delivery
WHERE destination_id IN (SELECT value FROM json_each(?3))
  AND event_seq IN (SELECT value FROM json_each(?2))
  AND status = ?1
  AND (?5 OR expires_at IS NULL OR expires_at > {now})
ORDER BY event_seq, destination_id
LIMIT ?4
