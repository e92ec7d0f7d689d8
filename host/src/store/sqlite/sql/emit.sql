-- One event, as any producer writes it; left alone if it exists. created_at is given, so that it is
-- this database's clock whatever that is.
INSERT INTO outbox_event
    (tenant_id, event_id, topic, payload, partition_key, headers, content_type, available_at, expires_at, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, coalesce(?7, 'application/json'), ?8, ?9, {now})
ON CONFLICT DO NOTHING
RETURNING seq
