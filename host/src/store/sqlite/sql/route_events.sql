-- Gives events ?1 (JSON array) their deliveries; what they have stays as it is.
INSERT INTO outbox_delivery (destination_id, event_seq, status, due_at, expires_at, tenant_id, partition_key)
SELECT DISTINCT
    r.destination_id,
    e.seq,
    0,
    min(max({now}, coalesce(e.available_at, 0)), coalesce(e.expires_at, 9223372036854775807)),
    e.expires_at,
    e.tenant_id,
    e.partition_key
FROM json_each(?1) asked
CROSS JOIN outbox_event e ON e.seq = asked.value
CROSS JOIN outbox_route r
WHERE (r.pattern = '*'
          OR r.pattern = e.topic
          OR (substr(r.pattern, -2) = '.*'
              AND substr(e.topic, 1, length(r.pattern) - 1) = substr(r.pattern, 1, length(r.pattern) - 1)))
ON CONFLICT (destination_id, event_seq) DO NOTHING
