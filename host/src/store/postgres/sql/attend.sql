-- Producers need not notify for lanes $1 within the next $2 microseconds. A longer promise stands.
-- In one order, so that two hosts never wait for each other.
insert into {schema}outbox_attention (destination_id, attended_until)
select id, {statement_now} + $2 * interval '1 microsecond'
from unnest($1::bigint[]) id
order by id
on conflict (destination_id) do update
set attended_until = greatest(outbox_attention.attended_until, excluded.attended_until)
