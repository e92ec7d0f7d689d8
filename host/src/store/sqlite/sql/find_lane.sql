-- The destination of name ?1; the reserved one has no name that a config may use.
SELECT id, state
FROM outbox_destination
WHERE name = ?1 AND id <> 0
