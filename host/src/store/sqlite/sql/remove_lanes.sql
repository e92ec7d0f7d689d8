-- Marks the destinations that are not in ?1 (JSON array) as removed. Their rows stay, visibly.
UPDATE outbox_destination
SET state = 'removed',
    paused_until = NULL,
    reason = 'not in the current config',
    pauses = 0,
    probe_token = NULL,
    probe_until = NULL,
    epoch = epoch + 1
WHERE id <> 0
  AND state <> 'removed'
  AND id NOT IN (SELECT value FROM json_each(?1))
