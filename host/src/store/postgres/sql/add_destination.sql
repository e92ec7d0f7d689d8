insert into {schema}outbox_destination (name, config_digest) values ($1, $2) returning id
