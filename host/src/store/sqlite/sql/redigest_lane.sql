-- Keeps the digest ?2 of destination ?1. If it changed, whatever stopped the lane may be fixed.
UPDATE outbox_destination
SET config_digest = ?2,
    epoch = epoch + (state = 'stopped'),
    reason = CASE WHEN state = 'stopped' THEN NULL ELSE reason END,
    state = CASE WHEN state = 'stopped' THEN 'active' ELSE state END
WHERE id = ?1
  AND config_digest <> ?2
RETURNING state
