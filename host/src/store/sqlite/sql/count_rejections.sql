-- How many distinct events in a row lane ?1 rejected.
SELECT count(*) AS count
FROM outbox_rejection
WHERE destination_id = ?1
