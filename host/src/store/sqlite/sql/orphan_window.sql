-- The next ?2 events after ?1, and whether each has no delivery row at all.
SELECT e.seq,
       NOT EXISTS (
           SELECT 1
           FROM outbox_delivery d
           WHERE d.destination_id IN (SELECT id FROM outbox_destination) AND d.event_seq = e.seq) AS is_orphan
FROM outbox_event e
WHERE e.seq > ?1
ORDER BY e.seq
LIMIT ?2
