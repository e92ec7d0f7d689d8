-- Gives destination ?1 its new name ?2; id and rows stay.
UPDATE outbox_destination
SET name = ?2
WHERE id = ?1
