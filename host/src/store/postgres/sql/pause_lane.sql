-- Pauses lane $1 at epoch $2 for $3 microseconds: an active one, or a paused one by its prober ($5).
update {schema}outbox_destination
set state = 'paused',
    epoch = epoch + 1,
    pauses = pauses + 1,
    paused_until = {now} + $3 * interval '1 microsecond',
    reason = $4,
    probe_token = null,
    probe_until = null
where id = $1
  and epoch = $2
  and ((state = 'active' and $5::uuid is null)
       -- An operator's pause has no end, and so no probe.
       or (state = 'paused' and paused_until is not null and probe_token = $5 and probe_until > {now}))
