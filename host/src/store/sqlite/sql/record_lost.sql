-- Writes the claims of deliveries ?2 (JSON array) of destination ?1 that expired without a word to
-- the history. A result that came late stands: lost never overwrites one.
INSERT INTO outbox_attempt
    (event_seq, destination_id, fence, attempt, host, started_at, ended_at, outcome, uncertain)
SELECT d.event_seq, d.destination_id, d.fence, d.attempts, coalesce(d.claimed_by, ''), d.claimed_at, d.lease_until,
       'lost', 1
FROM outbox_delivery d
WHERE d.destination_id = ?1
  AND d.event_seq IN (SELECT value FROM json_each(?2))
  AND d.claim_token IS NOT NULL
ON CONFLICT (event_seq, destination_id, fence) DO NOTHING
