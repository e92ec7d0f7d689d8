-- Stops lane $1 at epoch $2 until a person or a changed config acts. An operator's pause stands.
update {schema}outbox_destination
set state = 'stopped',
    epoch = epoch + 1,
    pauses = 0,
    paused_until = null,
    reason = $3,
    probe_token = null,
    probe_until = null
where id = $1
  and epoch = $2
  and (state = 'active' or (state = 'paused' and paused_until is not null))
