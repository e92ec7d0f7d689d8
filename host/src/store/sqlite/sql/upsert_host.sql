-- Announces host ?1.
INSERT INTO outbox_host (host_id, version, config_digest, schema_version, last_seen)
VALUES (?1, ?2, ?3, ?4, {now})
ON CONFLICT (host_id) DO UPDATE
SET version = excluded.version,
    config_digest = excluded.config_digest,
    schema_version = excluded.schema_version,
    last_seen = excluded.last_seen
