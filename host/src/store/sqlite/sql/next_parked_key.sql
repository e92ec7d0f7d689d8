-- The next key of destination ?1 after tenant ?2 and key ?3 that has a parked delivery.
SELECT tenant_id, partition_key
FROM outbox_delivery
WHERE destination_id = ?1
  AND parked = 1
  AND (tenant_id, partition_key) > (?2, ?3)
ORDER BY tenant_id, partition_key
LIMIT 1
