select at, who, action, target, count from {schema}outbox_action order by id desc limit $1
