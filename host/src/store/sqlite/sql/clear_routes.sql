-- The routes of the generation before.
DELETE FROM outbox_route
