-- Pauses lane ?1 until it is resumed, because of ?2.
UPDATE outbox_destination
SET state = 'paused',
    paused_until = NULL,
    reason = ?2,
    probe_token = NULL,
    probe_until = NULL,
    epoch = epoch + 1
WHERE id = ?1
  AND NOT (state = 'paused' AND paused_until IS NULL)
