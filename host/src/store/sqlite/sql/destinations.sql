-- Every destination, the reserved one included.
SELECT id, name, state, paused_until, reason
FROM outbox_destination
ORDER BY id
