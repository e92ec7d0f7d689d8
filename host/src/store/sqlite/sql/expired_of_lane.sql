-- Up to ?2 unclaimed deliveries of destination ?1 that have expired.
SELECT event_seq, tenant_id, partition_key
FROM outbox_delivery
WHERE destination_id = ?1
  AND status = 0
  AND expires_at IS NOT NULL
  AND expires_at <= {now}
  AND claim_token IS NULL
  AND (lease_until IS NULL OR lease_until <= {now})
ORDER BY expires_at
LIMIT ?2
