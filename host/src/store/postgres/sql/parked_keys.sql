-- Up to $5 keys with parked deliveries after the key ($2, $3, $4), of the destinations $1, hopping
-- from key to key in the index; `is_stuck` where the head itself is parked.
with recursive key as (
    (
        select destination_id, tenant_id, partition_key
        from {schema}outbox_delivery
        where parked and (destination_id, tenant_id, partition_key) > ($2, $3, $4)
        order by destination_id, tenant_id, partition_key
        limit 1
    )
    union all
    select next.destination_id, next.tenant_id, next.partition_key
    from key
    cross join lateral (
        select d.destination_id, d.tenant_id, d.partition_key
        from {schema}outbox_delivery d
        where d.parked
          and (d.destination_id, d.tenant_id, d.partition_key)
              > (key.destination_id, key.tenant_id, key.partition_key)
        order by d.destination_id, d.tenant_id, d.partition_key
        limit 1
    ) next
)
select key.destination_id,
       key.tenant_id,
       key.partition_key,
       key.destination_id = any ($1) and coalesce((
           select head.parked
           from {schema}outbox_delivery head
           where head.destination_id = key.destination_id
             and head.tenant_id = key.tenant_id
             and head.partition_key = key.partition_key
             and head.status = 0
           order by head.event_seq
           limit 1), false) as is_stuck
from key
limit $5
