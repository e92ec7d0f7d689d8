-- Ends attempts, each judged by its own token and unexpired lease at ?2. ?1 is a JSON array of
-- [destination, event, fence, token, write, due, disposition, reference, error, uncertain].
-- Writes: 0 delivered, 1 dead, 2 retry, 3 defer.
UPDATE outbox_delivery AS d
SET status = CASE r.value ->> 4 WHEN 0 THEN 1 WHEN 1 THEN 2 ELSE 0 END,
    attempts = attempts - (r.value ->> 4 = 3),
    deferrals = deferrals + (r.value ->> 4 = 3),
    last_deferred_at = CASE WHEN r.value ->> 4 = 3 THEN ?2 ELSE last_deferred_at END,
    uncertain = uncertain OR r.value ->> 9,
    claim_token = NULL,
    lease_until = NULL,
    claimed_by = NULL,
    due_at = CASE WHEN r.value ->> 4 >= 2 THEN min(r.value ->> 5, coalesce(d.expires_at, r.value ->> 5)) END,
    disposition = r.value ->> 6,
    reference = r.value ->> 7,
    last_error = r.value ->> 8,
    finished_at = CASE WHEN r.value ->> 4 < 2 THEN ?2 END
FROM json_each(?1) r
WHERE d.destination_id = r.value ->> 0
  AND d.event_seq = r.value ->> 1
  AND d.status = 0
  AND d.fence = r.value ->> 2
  AND d.claim_token = unhex(r.value ->> 3)
  AND d.lease_until > ?2
RETURNING destination_id, event_seq, fence, tenant_id, partition_key
