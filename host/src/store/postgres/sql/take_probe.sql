-- The right to probe lane $1 for $2 microseconds, if its pause has run out and nobody holds it.
update {schema}outbox_destination
set probe_token = gen_random_uuid(),
    probe_until = {now} + $2 * interval '1 microsecond'
where id = $1
  and state = 'paused'
  and paused_until <= {now}
  and (probe_until is null or probe_until <= {now})
returning probe_token
