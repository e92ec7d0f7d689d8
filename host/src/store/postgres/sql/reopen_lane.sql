-- Makes lane $1 at epoch $2 active by its prober ($3); $4: the probe was delivered.
update {schema}outbox_destination
set state = 'active',
    epoch = epoch + 1,
    pauses = 0,
    paused_until = null,
    reason = null,
    rejected_events = '{}',
    probe_token = null,
    probe_until = null,
    last_success_at = case when $4 then {now} else last_success_at end
where id = $1
  and epoch = $2
  and state = 'paused'
  and probe_token = $3
  and probe_until > {now}
