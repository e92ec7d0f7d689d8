-- Tries stopped lane ?1 at epoch ?2 again, because the plugin behind it was replaced.
UPDATE outbox_destination
SET state = 'active',
    reason = NULL,
    pauses = 0,
    epoch = epoch + 1
WHERE id = ?1
  AND epoch = ?2
  AND state = 'stopped'
