insert into {schema}outbox_action (at, who, action, target, count) values ({now}, $1, $2, $3, $4)
