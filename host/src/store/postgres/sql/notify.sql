-- Wakes all hosts, if they want to be woken.
select pg_notify('outbox_wake', '')::text from {schema}outbox_setting where name = 'wake' and value = 'notify'
