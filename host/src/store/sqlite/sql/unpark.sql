-- For each of the keys ?1 (JSON array of [destination, tenant, key]): puts its first parked delivery
-- back into the due order, if its turn has come at ?2. Runs wherever a delivery of the key ends, is
-- cancelled or gives its lease back.
UPDATE outbox_delivery AS d
SET parked = 0,
    due_at = min(
        max(coalesce(d.due_at, ?2), coalesce((
            SELECT max(ended.lease_until)
            FROM outbox_delivery ended INDEXED BY outbox_delivery_key_leased
            WHERE ended.destination_id = d.destination_id
              AND ended.tenant_id = d.tenant_id
              AND ended.partition_key = d.partition_key
              AND ended.lease_until > ?2
              AND ended.status <> 0), 0)),
        coalesce(d.expires_at, 9223372036854775807))
FROM (
    SELECT k.value ->> 0 AS destination_id,
           lane.ordering,
           (SELECT p.event_seq
            FROM outbox_delivery p INDEXED BY outbox_delivery_parked
            WHERE p.destination_id = k.value ->> 0
              AND p.tenant_id = k.value ->> 1
              AND p.partition_key = k.value ->> 2
              AND p.parked = 1
            ORDER BY p.event_seq
            LIMIT 1) AS event_seq
    FROM json_each(?1) k
    CROSS JOIN outbox_destination lane ON lane.id = k.value ->> 0
) first
WHERE d.destination_id = first.destination_id
  AND d.event_seq = first.event_seq
  AND (first.ordering = 'none' OR NOT (
      EXISTS (
          SELECT 1
          FROM outbox_delivery leased INDEXED BY outbox_delivery_key_leased
          WHERE leased.destination_id = d.destination_id
            AND leased.tenant_id = d.tenant_id
            AND leased.partition_key = d.partition_key
            AND leased.lease_until > ?2
            AND leased.status = 0
            AND leased.event_seq <> d.event_seq)
      OR EXISTS (
          SELECT 1
          FROM outbox_delivery earlier INDEXED BY outbox_delivery_key
          WHERE earlier.destination_id = d.destination_id
            AND earlier.tenant_id = d.tenant_id
            AND earlier.partition_key = d.partition_key
            AND earlier.status = 0
            AND earlier.event_seq < d.event_seq
            AND (earlier.expires_at IS NULL OR earlier.expires_at > ?2))
      OR (first.ordering = 'key-block' AND EXISTS (
          SELECT 1
          FROM outbox_delivery dead INDEXED BY outbox_delivery_key_dead
          WHERE dead.destination_id = d.destination_id
            AND dead.tenant_id = d.tenant_id
            AND dead.partition_key = d.partition_key
            AND dead.status = 2
            AND dead.event_seq < d.event_seq
            AND dead.disposition <> 'expired'))))
