-- Whether a host was silent for ?1 microseconds or longer.
SELECT 1 FROM outbox_host WHERE last_seen <= {now} - ?1 LIMIT 1
