-- Cancels pending deliveries ?1 (JSON array of [destination, event]). The token goes, so that a late
-- result is fenced; a live lease stays, so that its key waits.
UPDATE outbox_delivery AS d
SET status = 3,
    parked = 0,
    disposition = 'cancelled',
    finished_at = {now},
    claim_token = NULL,
    claimed_by = NULL,
    lease_until = CASE WHEN lease_until > {now} THEN lease_until END,
    due_at = NULL
FROM json_each(?1) t
WHERE d.destination_id = t.value ->> 0
  AND d.event_seq = t.value ->> 1
  AND d.status = 0
