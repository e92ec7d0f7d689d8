-- Host ?1 is alive and says ?2 (JSON) of itself. Returns whether its config is current.
UPDATE outbox_host
SET last_seen = {now},
    notes = ?2
WHERE host_id = ?1
RETURNING config_digest = (SELECT config_digest FROM outbox_generation ORDER BY generation DESC LIMIT 1) AS is_current
