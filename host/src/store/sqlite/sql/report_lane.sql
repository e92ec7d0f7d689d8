-- The backlog of destination ?1, counted up to ?2.
SELECT {now} AS now,
       (SELECT count(*) FROM (
           SELECT 1
           FROM outbox_delivery INDEXED BY outbox_delivery_pending
           WHERE destination_id = ?1 AND status = 0
           LIMIT ?2)) AS pending,
       (SELECT count(*) FROM (
           SELECT 1
           FROM outbox_delivery
           WHERE destination_id = ?1 AND status = 0 AND lease_until IS NOT NULL AND lease_until > {now}
           LIMIT ?2)) AS leased,
       (SELECT count(*) FROM (
           SELECT 1
           FROM outbox_delivery INDEXED BY outbox_delivery_dead
           WHERE destination_id = ?1 AND status = 2
           LIMIT ?2)) AS dead,
       (SELECT e.created_at
        FROM outbox_delivery d INDEXED BY outbox_delivery_pending
        CROSS JOIN outbox_event e ON e.seq = d.event_seq
        WHERE d.destination_id = ?1 AND d.status = 0
        ORDER BY d.event_seq
        LIMIT 1) AS oldest_pending
