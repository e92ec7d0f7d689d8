-- Whether the routing trigger notifies.
update {schema}outbox_setting set value = $1 where name = 'wake' and value <> $1
