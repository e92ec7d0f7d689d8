-- Routes of generation $3, row by row: pattern, destination.
insert into {schema}outbox_route (pattern, destination_id, generation)
select distinct pattern, destination_id, $3::bigint
from unnest($1::text[], $2::bigint[]) as route (pattern, destination_id)
