-- Gives up dead letters ?1 (JSON array of [destination, event]).
UPDATE outbox_delivery AS d
SET status = 3,
    disposition = 'discarded',
    finished_at = {now}
FROM json_each(?1) t
WHERE d.destination_id = t.value ->> 0
  AND d.event_seq = t.value ->> 1
  AND d.status = 2
