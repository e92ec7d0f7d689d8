-- Adds event ?2 to the distinct events that lane ?1 rejected in a row.
INSERT INTO outbox_rejection (destination_id, event_seq)
VALUES (?1, ?2)
ON CONFLICT (destination_id, event_seq) DO NOTHING
