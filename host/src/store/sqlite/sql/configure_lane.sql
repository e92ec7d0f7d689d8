-- Keeps the order ?2 of destination ?1, and revives it if it had been removed.
UPDATE outbox_destination
SET ordering = ?2,
    epoch = epoch + (state = 'removed'),
    reason = CASE WHEN state = 'removed' THEN NULL ELSE reason END,
    state = CASE WHEN state = 'removed' THEN 'active' ELSE state END
WHERE id = ?1
