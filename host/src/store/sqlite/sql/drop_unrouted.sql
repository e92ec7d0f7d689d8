-- Deletes the unrouted deliveries of events ?1 (JSON array) that have real ones now.
DELETE FROM outbox_delivery
WHERE destination_id = 0
  AND event_seq IN (SELECT value FROM json_each(?1))
  AND EXISTS (
      SELECT 1
      FROM outbox_delivery routed
      WHERE routed.destination_id IN (SELECT id FROM outbox_destination WHERE id <> 0)
        AND routed.event_seq = outbox_delivery.event_seq)
