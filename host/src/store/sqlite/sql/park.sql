-- Takes deliveries ?1 (JSON array of [destination, event, until or null]), which stand behind another
-- of their key, out of the due order; those with a time wait for that time instead. A claim of theirs
-- that had expired is counted as lost. ?2 is now.
UPDATE outbox_delivery AS d
SET parked = p.value ->> 2 IS NULL,
    due_at = CASE
        WHEN p.value ->> 2 IS NOT NULL THEN min(p.value ->> 2, coalesce(d.expires_at, p.value ->> 2))
        WHEN claim_token IS NOT NULL THEN min(?2, coalesce(d.expires_at, ?2))
        ELSE due_at END,
    lost = lost + (claim_token IS NOT NULL),
    uncertain = uncertain OR claim_token IS NOT NULL,
    last_error = CASE WHEN claim_token IS NOT NULL
        THEN 'lost: host ' || claimed_by || ' did not answer before its lease ended'
        ELSE last_error END,
    claim_token = NULL,
    lease_until = NULL,
    claimed_by = NULL
FROM json_each(?1) p
WHERE d.destination_id = p.value ->> 0
  AND d.event_seq = p.value ->> 1
  AND d.status = 0
