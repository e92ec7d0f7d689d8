-- Gives back the right ?3 to probe lane ?1 at epoch ?2.
UPDATE outbox_destination
SET probe_token = NULL,
    probe_until = NULL
WHERE id = ?1
  AND epoch = ?2
  AND state = 'paused'
  AND paused_until IS NOT NULL
  AND probe_token = ?3
  AND probe_until > {now}
