select id, state from {schema}outbox_destination where name = $1 and id > 0
