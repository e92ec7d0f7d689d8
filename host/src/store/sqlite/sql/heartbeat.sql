-- Host ?1 is alive, and ?2 (JSON) can't run there. Returns whether its config is current.
UPDATE outbox_host
SET last_seen = {now},
    problems = ?2
WHERE host_id = ?1
RETURNING config_digest = (SELECT config_digest FROM outbox_generation ORDER BY generation DESC LIMIT 1) AS is_current
