-- Makes dead letters of deliveries ?1 (JSON array of [destination, event, reason]) at ?2: those that
-- expired or have no attempt left. The destination is in each row, because the planner would walk
-- all of one destination otherwise.
UPDATE outbox_delivery AS d
SET status = 2,
    disposition = b.value ->> 2,
    finished_at = ?2,
    lost = lost + (claim_token IS NOT NULL),
    uncertain = uncertain OR claim_token IS NOT NULL,
    last_error = CASE WHEN claim_token IS NOT NULL
        THEN 'lost: host ' || claimed_by || ' did not answer before its lease ended'
        ELSE last_error END,
    claim_token = NULL,
    lease_until = NULL,
    claimed_by = NULL,
    due_at = NULL,
    parked = 0
FROM json_each(?1) b
WHERE d.destination_id = b.value ->> 0
  AND d.event_seq = b.value ->> 1
  AND d.status = 0
  AND (d.lease_until IS NULL OR d.lease_until <= ?2)
