-- The last event there is.
SELECT coalesce(max(seq), 0) AS seq
FROM outbox_event
