-- The latest ?1 acts of operators, newest first.
SELECT at, who, action, target, count
FROM outbox_action
ORDER BY id DESC
LIMIT ?1
