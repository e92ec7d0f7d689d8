-- Stops lane ?1 at epoch ?2 because of ?3, unless an operator paused it.
UPDATE outbox_destination
SET state = 'stopped',
    paused_until = NULL,
    reason = ?3,
    pauses = 0,
    probe_token = NULL,
    probe_until = NULL,
    epoch = epoch + 1
WHERE id = ?1
  AND epoch = ?2
  AND (state = 'active' OR (state = 'paused' AND paused_until IS NOT NULL))
