-- Makes dead letters of deliveries ?2 (JSON array of [event, reason]) of destination ?1 at ?3:
-- those that expired or have no attempt left.
UPDATE outbox_delivery AS d
SET status = 2,
    disposition = b.value ->> 1,
    finished_at = ?3,
    lost = lost + (claim_token IS NOT NULL),
    uncertain = uncertain OR claim_token IS NOT NULL,
    claim_token = NULL,
    lease_until = NULL,
    claimed_by = NULL,
    due_at = NULL,
    parked = 0
FROM json_each(?2) b
WHERE d.destination_id = ?1
  AND d.event_seq = b.value ->> 0
  AND d.status = 0
  AND (d.lease_until IS NULL OR d.lease_until <= ?3)
