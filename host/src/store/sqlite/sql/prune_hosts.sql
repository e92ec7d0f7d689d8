-- Forgets hosts that were silent for ?1 microseconds or longer.
DELETE FROM outbox_host WHERE last_seen <= {now} - ?1
