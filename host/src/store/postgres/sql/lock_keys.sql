-- Waits for the locks of keys ($1 destination, $2 tenant, $3 key, row by row), in one order for
-- everybody. The claim only tries them, so that nobody waits in a circle.
select count(pg_advisory_xact_lock(number))
from (
    select distinct hashtextextended(octet_length(tenant_id) || ':' || tenant_id || partition_key, destination_id) as number
    from unnest($1::bigint[], $2::text[], $3::text[]) as key (destination_id, tenant_id, partition_key)
    order by number
) lock
