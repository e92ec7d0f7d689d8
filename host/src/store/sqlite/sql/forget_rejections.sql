-- Ends the run of rejections of lane ?1.
DELETE FROM outbox_rejection
WHERE destination_id = ?1
