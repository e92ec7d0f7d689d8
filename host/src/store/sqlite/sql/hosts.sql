-- Hosts seen, newest first.
SELECT host_id,
       version,
       config_digest,
       schema_version,
       last_seen,
       notes,
       config_digest = (SELECT config_digest FROM outbox_generation ORDER BY generation DESC LIMIT 1) AS is_current
FROM outbox_host
ORDER BY last_seen DESC, host_id
