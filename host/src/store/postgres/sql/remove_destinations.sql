-- What is not in the current configuration ($1) keeps its rows, visibly.
update {schema}outbox_destination
set state = 'removed',
    epoch = epoch + 1,
    pauses = 0,
    paused_until = null,
    reason = 'not in the current config',
    probe_token = null,
    probe_until = null
where id > 0
  and id <> all ($1)
  and state <> 'removed'
