-- Forgets hosts that were silent for $1 microseconds or longer.
delete from {schema}outbox_host where last_seen <= {statement_now} - $1 * interval '1 microsecond'
