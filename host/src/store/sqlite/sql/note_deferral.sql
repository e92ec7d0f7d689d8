-- Notes at ?2 that deliveries of lanes ?1 (JSON array) were deferred.
UPDATE outbox_destination
SET last_deferred_at = ?2
WHERE id IN (SELECT value FROM json_each(?1))
