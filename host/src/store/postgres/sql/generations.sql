-- The current generation, whether digest $1 is it, and whether that digest was ever one.
select coalesce(max(generation), 0) as generation,
       coalesce((array_agg(config_digest order by generation desc))[1] = $1, false) as is_current,
       coalesce(bool_or(config_digest = $1), false) as was_seen
from {schema}outbox_generation
