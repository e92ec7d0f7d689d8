-- Pauses lane ?1 at epoch ?2 for ?3 microseconds because of ?4: an active one, or by its prober ?5.
UPDATE outbox_destination
SET state = 'paused',
    paused_until = {now} + ?3,
    reason = ?4,
    pauses = pauses + 1,
    probe_token = NULL,
    probe_until = NULL,
    epoch = epoch + 1
WHERE id = ?1
  AND epoch = ?2
  AND ((?5 IS NULL AND state = 'active')
       OR (state = 'paused' AND paused_until IS NOT NULL AND probe_token = ?5 AND probe_until > {now}))
