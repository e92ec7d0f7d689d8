-- Destination $1 has digest $2 now; if that is news, a stopped lane is worth another try.
update {schema}outbox_destination
set config_digest = $2,
    epoch = epoch + case when state = 'stopped' then 1 else 0 end,
    reason = case when state = 'stopped' then null else reason end,
    rejected_events = case when state = 'stopped' then '{}' else rejected_events end,
    state = case when state = 'stopped' then 'active' else state end
where id = $1
  and config_digest <> $2
