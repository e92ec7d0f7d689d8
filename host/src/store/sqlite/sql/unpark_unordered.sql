-- Puts up to ?2 parked deliveries of destination ?1 back, if it no longer keeps an order.
UPDATE outbox_delivery
SET parked = 0
WHERE destination_id = ?1
  AND event_seq IN (
      SELECT event_seq
      FROM outbox_delivery
      WHERE destination_id = ?1 AND parked = 1
      ORDER BY tenant_id, partition_key, event_seq
      LIMIT ?2)
  AND EXISTS (SELECT 1 FROM outbox_destination WHERE id = ?1 AND ordering = 'none')
