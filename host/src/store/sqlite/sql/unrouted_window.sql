-- The next ?2 unrouted events after ?1, whether a route matches each by now, and the generation of
-- these routes.
SELECT d.event_seq,
       EXISTS (
           SELECT 1
           FROM outbox_route r
           WHERE (r.pattern = '*'
          OR r.pattern = e.topic
          OR (substr(r.pattern, -2) = '.*'
              AND substr(e.topic, 1, length(r.pattern) - 1) = substr(r.pattern, 1, length(r.pattern) - 1)))) AS is_routed,
       (SELECT coalesce(max(generation), 0) FROM outbox_generation) AS generation
FROM outbox_delivery d
CROSS JOIN outbox_event e ON e.seq = d.event_seq
WHERE d.destination_id = 0 AND d.event_seq > ?1 AND d.status = 4
ORDER BY d.event_seq
LIMIT ?2
