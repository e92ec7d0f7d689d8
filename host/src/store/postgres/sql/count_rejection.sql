-- Adds event $2 to the distinct events that lane $1 rejected in a row; null ends the run. A
-- thousand are remembered: a config can't set a higher limit.
update {schema}outbox_destination
set rejected_events = case
        when $2::bigint is null then '{}'
        when $2::bigint = any (rejected_events) or cardinality(rejected_events) >= 1000 then rejected_events
        else rejected_events || $2::bigint
    end
where id = $1
  -- An empty run that ends again is not written: it happens with every delivery.
  and ($2::bigint is not null or rejected_events <> '{}')
returning cardinality(rejected_events) as rejections
