-- Takes deliveries ?2 (JSON array) of destination ?1 for host ?3 from ?4 until ?5: attempts + 1,
-- fence + 1, a new token each. A claim that had expired is counted as lost. The token comes from
-- SQLite's ChaCha20 generator, which the operating system seeds.
UPDATE outbox_delivery
SET lost = lost + (claim_token IS NOT NULL),
    uncertain = uncertain OR claim_token IS NOT NULL,
    last_error = CASE WHEN claim_token IS NOT NULL
        THEN 'lost: host ' || claimed_by || ' did not answer before its lease ended'
        ELSE last_error END,
    attempts = attempts + 1,
    fence = fence + 1,
    claim_token = randomblob(16),
    lease_until = ?5,
    due_at = ?5,
    claimed_by = ?3,
    claimed_at = ?4,
    first_claimed_at = coalesce(first_claimed_at, ?4)
WHERE destination_id = ?1
  AND event_seq IN (SELECT value FROM json_each(?2))
  AND status = 0
  AND (lease_until IS NULL OR lease_until <= ?4)
RETURNING event_seq, claim_token, fence, attempts, lost, uncertain, first_claimed_at
