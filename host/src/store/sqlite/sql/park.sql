-- Takes deliveries ?2 (JSON array of [event, until or null]) of destination ?1, which stand behind
-- another of their key, out of the due order; those with a time wait for that time instead. A claim
-- of theirs that had expired is counted as lost. ?3 is now.
UPDATE outbox_delivery AS d
SET parked = p.value ->> 1 IS NULL,
    due_at = CASE
        WHEN p.value ->> 1 IS NOT NULL THEN min(p.value ->> 1, coalesce(d.expires_at, p.value ->> 1))
        WHEN claim_token IS NOT NULL THEN min(?3, coalesce(d.expires_at, ?3))
        ELSE due_at END,
    lost = lost + (claim_token IS NOT NULL),
    uncertain = uncertain OR claim_token IS NOT NULL,
    claim_token = NULL,
    lease_until = NULL,
    claimed_by = NULL
FROM json_each(?2) p
WHERE d.destination_id = ?1
  AND d.event_seq = p.value ->> 0
  AND d.status = 0
