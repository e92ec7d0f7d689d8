-- Makes digest $1, by host $2, the next generation.
insert into {schema}outbox_generation (generation, config_digest, host_id, taken_at)
select coalesce(max(generation), 0) + 1, $1, $2, {now}
from {schema}outbox_generation
returning generation
