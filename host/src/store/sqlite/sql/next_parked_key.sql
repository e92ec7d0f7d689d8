-- The next key of destination ?1 after tenant ?2 and key ?3 that has a parked delivery.
SELECT tenant_id, partition_key
FROM outbox_delivery
WHERE destination_id = ?1
  AND parked = 1
  -- With the last possible event: SQLite seeks to the first equal row and would walk all of the key.
  AND (tenant_id, partition_key, event_seq) > (?2, ?3, 9223372036854775807)
ORDER BY tenant_id, partition_key, event_seq
LIMIT 1
