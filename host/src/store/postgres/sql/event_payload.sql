select payload from {schema}outbox_event where seq = $1
