-- Destination $1 is in the current configuration as $2, ordered by $3; a removed one is active again.
update {schema}outbox_destination
set name = $2,
    ordering = $3,
    epoch = epoch + case when state = 'removed' then 1 else 0 end,
    reason = case when state = 'removed' then null else reason end,
    state = case when state = 'removed' then 'active' else state end
where id = $1
