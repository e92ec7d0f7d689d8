-- Host $1 is alive and says $2 of itself.
update {schema}outbox_host h
set last_seen = {now},
    notes = $2
where host_id = $1
returning coalesce(config_digest = (
    select g.config_digest from {schema}outbox_generation g order by g.generation desc limit 1
), false) as is_current
