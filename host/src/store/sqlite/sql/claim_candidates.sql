-- Up to ?3 deliveries of destination ?1 that are due at ?2, in due order, each with its event and
-- its standing in its key under the order ?4. Each question of the standing is one probe of an
-- index, asked only for the rows that are returned. The indexes are named: without statistics the
-- planner may walk the primary key, and so all that lies before.
SELECT d.event_seq,
       d.attempts,
       d.deferrals,
       d.claim_token IS NOT NULL AS is_lost,
       d.last_deferred_at,
       coalesce(d.expires_at <= ?2, 0) AS is_expired,
       d.tenant_id,
       d.partition_key,
       e.event_id,
       e.topic,
       e.headers,
       e.content_type,
       e.created_at,
       e.expires_at,
       octet_length(e.payload) AS payload_bytes,
       CASE WHEN ?4 = 'none' OR d.partition_key IS NULL THEN 0 ELSE
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
           OR (?4 = 'key-block' AND EXISTS (
               SELECT 1
               FROM outbox_delivery dead INDEXED BY outbox_delivery_key_dead
               WHERE dead.destination_id = d.destination_id
                 AND dead.tenant_id = d.tenant_id
                 AND dead.partition_key = d.partition_key
                 AND dead.status = 2
                 AND dead.event_seq < d.event_seq
                 AND dead.disposition <> 'expired'))
       END AS is_behind,
       -- A cancelled delivery keeps its lease, and its key waits for the end of it.
       CASE WHEN ?4 = 'none' OR d.partition_key IS NULL THEN NULL ELSE (
           SELECT max(ended.lease_until)
           FROM outbox_delivery ended INDEXED BY outbox_delivery_key_leased
           WHERE ended.destination_id = d.destination_id
             AND ended.tenant_id = d.tenant_id
             AND ended.partition_key = d.partition_key
             AND ended.lease_until > ?2
             AND ended.status <> 0)
       END AS waits_until
FROM outbox_delivery d INDEXED BY {index}
CROSS JOIN outbox_event e ON e.seq = d.event_seq
WHERE d.destination_id = ?1
  AND d.status = 0
  AND d.parked = 0
  AND {which}
  AND d.due_at <= ?2
ORDER BY d.due_at, d.event_seq
LIMIT ?3
