-- Gives those of events ?1 (JSON array) that no route matched their unrouted delivery.
INSERT INTO outbox_delivery (destination_id, event_seq, status, expires_at, tenant_id, partition_key)
SELECT 0, e.seq, 4, e.expires_at, e.tenant_id, e.partition_key
FROM json_each(?1) asked
CROSS JOIN outbox_event e ON e.seq = asked.value
WHERE NOT EXISTS (
    SELECT 1
    FROM outbox_delivery d
    WHERE d.destination_id IN (SELECT id FROM outbox_destination) AND d.event_seq = e.seq)
