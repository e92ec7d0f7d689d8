-- Paused without an end: never probed, until a person resumes it.
update {schema}outbox_destination
set state = 'paused',
    epoch = epoch + 1,
    paused_until = null,
    reason = $2,
    probe_token = null,
    probe_until = null
where id = $1
  and state <> 'removed'
  and not (state = 'paused' and paused_until is null)
