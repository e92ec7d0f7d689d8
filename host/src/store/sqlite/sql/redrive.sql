-- Puts dead letters ?1 (JSON array of [destination, event, due]) back: attempts 0, fence and history
-- kept. With ?2 their expiry is ignored from now on.
UPDATE outbox_delivery AS d
SET status = 0,
    attempts = 0,
    disposition = NULL,
    finished_at = NULL,
    first_claimed_at = NULL,
    parked = 0,
    expires_at = CASE WHEN ?2 THEN NULL ELSE d.expires_at END,
    due_at = CASE WHEN ?2 OR d.expires_at IS NULL THEN t.value ->> 2 ELSE min(t.value ->> 2, d.expires_at) END
FROM json_each(?1) t
WHERE d.destination_id = t.value ->> 0
  AND d.event_seq = t.value ->> 1
  AND d.status = 2
