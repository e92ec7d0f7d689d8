-- A new destination.
INSERT INTO outbox_destination (name, config_digest)
VALUES (?1, ?2)
RETURNING id
