-- The current generation and its digest, and whether digest ?1 was ever applied.
SELECT coalesce(max(generation), 0) AS generation,
       (SELECT config_digest FROM outbox_generation ORDER BY generation DESC LIMIT 1) AS config_digest,
       EXISTS (SELECT 1 FROM outbox_generation WHERE config_digest = ?1) AS was_seen
FROM outbox_generation
