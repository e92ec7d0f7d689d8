delete from {schema}outbox_route
