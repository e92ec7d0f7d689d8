-- Tries stopped lane $1 at epoch $2 again, because the plugin behind it was replaced.
update {schema}outbox_destination
set state = 'active',
    epoch = epoch + 1,
    pauses = 0,
    reason = null,
    rejected_events = '{}'
where id = $1
  and epoch = $2
  and state = 'stopped'
