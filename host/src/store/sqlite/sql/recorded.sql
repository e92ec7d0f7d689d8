-- Of the ?3 newest deliveries for destination ?1 before event ?2: those delivered or dead, with their
-- events and what came of their last attempt; and the oldest of them, whatever its state, where the next
-- page goes on; in any order. Walks the primary key, so that a page costs the same wherever it lies.
WITH page AS MATERIALIZED (
    SELECT event_seq, status, disposition, fence
    FROM outbox_delivery
    WHERE destination_id = ?1 AND event_seq < ?2
    ORDER BY event_seq DESC
    LIMIT ?3
)
SELECT page.event_seq, page.status, page.disposition, e.tenant_id, e.event_id, e.topic, e.partition_key, e.headers,
       e.content_type, octet_length(e.payload) AS payload_bytes, e.created_at, e.expires_at, a.outcome, a.code
FROM page
CROSS JOIN outbox_event e ON e.seq = page.event_seq
LEFT JOIN outbox_attempt a ON a.event_seq = page.event_seq AND a.destination_id = ?1 AND a.fence = page.fence
WHERE page.status IN (1, 2) OR page.event_seq = (SELECT min(event_seq) FROM page)
