-- Takes the right to probe lane ?1 with a new token for ?2 microseconds, if its pause has run out
-- and nobody holds it. An operator's pause has no end and is never probed.
UPDATE outbox_destination
SET probe_token = randomblob(16),
    probe_until = {now} + ?2
WHERE id = ?1
  AND state = 'paused'
  AND paused_until <= {now}
  AND (probe_token IS NULL OR probe_until <= {now})
RETURNING probe_token
