-- The events that no route matches, counted up to ?1.
SELECT {now} AS now,
       (SELECT count(*) FROM (SELECT 1 FROM outbox_delivery WHERE destination_id = 0 AND status = 4 LIMIT ?1))
           AS pending,
       (SELECT e.created_at
        FROM outbox_delivery d
        CROSS JOIN outbox_event e ON e.seq = d.event_seq
        WHERE d.destination_id = 0 AND d.status = 4
        ORDER BY d.event_seq
        LIMIT 1) AS oldest_pending
