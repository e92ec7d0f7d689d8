-- Makes lane $1 active, whatever held it. An active one starts a new epoch as well: a host that
-- stopped it for itself tries again.
update {schema}outbox_destination
set state = 'active',
    epoch = epoch + 1,
    pauses = 0,
    paused_until = null,
    reason = null,
    probe_token = null,
    probe_until = null,
    rejected_events = '{}'
where id = $1
  and state <> 'removed'
