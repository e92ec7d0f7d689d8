-- Notes at ?2 that the lanes ?1 (JSON array) worked, if one of their deliveries was deferred since
-- they last did: nobody asks otherwise, and the row is spared.
UPDATE outbox_destination
SET last_success_at = ?2
WHERE id IN (SELECT value FROM json_each(?1))
  AND last_deferred_at IS NOT NULL
  AND (last_success_at IS NULL OR last_success_at <= last_deferred_at)
