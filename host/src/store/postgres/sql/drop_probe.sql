-- Gives the right to probe lane $1 at epoch $2 back.
update {schema}outbox_destination
set probe_token = null,
    probe_until = null
where id = $1
  and epoch = $2
  and probe_token = $3
  and probe_until > {now}
