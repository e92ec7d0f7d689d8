-- Makes digest ?2 of host ?3 the current generation ?1.
INSERT INTO outbox_generation (generation, config_digest, host_id, taken_at)
VALUES (?1, ?2, ?3, {now})
