-- Gives back each of the claims ?1 (JSON array of [destination, event, fence, token]) whose token and
-- unexpired lease still match at ?2, with its attempt.
UPDATE outbox_delivery AS d
SET attempts = attempts - 1,
    claim_token = NULL,
    lease_until = NULL,
    claimed_by = NULL,
    due_at = min(?2, coalesce(d.expires_at, ?2))
FROM json_each(?1) c
WHERE d.destination_id = c.value ->> 0
  AND d.event_seq = c.value ->> 1
  AND d.status = 0
  AND d.fence = c.value ->> 2
  AND d.claim_token = unhex(c.value ->> 3)
  AND d.lease_until > ?2
RETURNING destination_id, event_seq, fence, tenant_id, partition_key
