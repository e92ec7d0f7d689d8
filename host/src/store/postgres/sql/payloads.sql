-- Payloads of the events in $1.
select seq, payload from {schema}outbox_event where seq = any ($1)
