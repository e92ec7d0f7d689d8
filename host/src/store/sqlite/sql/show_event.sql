-- The event of tenant ?1 and ID ?2.
SELECT seq, tenant_id, event_id, topic, partition_key, headers, content_type, octet_length(payload) AS payload_bytes,
       created_at, available_at, expires_at
FROM outbox_event
WHERE event_id = ?2 AND tenant_id = ?1
