-- Routes pattern ?1 to destination ?2 since generation ?3.
INSERT INTO outbox_route (pattern, destination_id, generation)
VALUES (?1, ?2, ?3)
ON CONFLICT (destination_id, pattern) DO NOTHING
