-- Sends delivered deliveries ?1 (JSON array of [destination, event]) once more, on purpose: neither
-- an old expiry nor the first effect is news.
UPDATE outbox_delivery AS d
SET status = 0,
    attempts = 0,
    disposition = NULL,
    finished_at = NULL,
    first_claimed_at = NULL,
    uncertain = 1,
    expires_at = NULL,
    parked = 0,
    due_at = {now}
FROM json_each(?1) t
WHERE d.destination_id = t.value ->> 0
  AND d.event_seq = t.value ->> 1
  AND d.status = 1
