-- Makes lane ?1 active, whatever held it; its run of rejections is forgotten elsewhere. An active
-- one starts a new epoch as well: a host that stopped it for itself tries again.
UPDATE outbox_destination
SET state = 'active',
    paused_until = NULL,
    reason = NULL,
    pauses = 0,
    probe_token = NULL,
    probe_until = NULL,
    epoch = epoch + 1
WHERE id = ?1
  AND state <> 'removed'
