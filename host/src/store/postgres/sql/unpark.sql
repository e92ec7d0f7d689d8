-- Puts the head of each key ($1 destination, $2 tenant, $3 key, row by row) back into the due
-- index, unless a lease that will end will do so, or a dead letter before it blocks (by the lane's
-- own order, or by the caller's: $4). The caller holds the keys' locks. Changes nothing where the head is not parked.
with head as materialized (
    select key.destination_id,
           head.event_seq,
           -- A cancelled delivery keeps its lease, and its key waits for the end of it.
           (
               select max(leased.lease_until)
               from {schema}outbox_delivery leased
               where leased.destination_id = key.destination_id
                 and leased.tenant_id = key.tenant_id
                 and leased.partition_key = key.partition_key
                 and leased.lease_until is not null
                 and leased.lease_until > {statement_now}
           ) as key_free_at
    from unnest($1::bigint[], $2::text[], $3::text[]) as key (destination_id, tenant_id, partition_key)
    join {schema}outbox_destination destination on destination.id = key.destination_id
    cross join lateral (
        select d.event_seq, d.parked
        from {schema}outbox_delivery d
        where d.destination_id = key.destination_id
          and d.tenant_id = key.tenant_id
          and d.partition_key = key.partition_key
          and d.status = 0
        order by d.event_seq
        limit 1
        -- Whoever has locked the head puts it right itself.
        for update skip locked
    ) head
    where head.parked
      and (
          select true
          from {schema}outbox_delivery leased
          where leased.destination_id = key.destination_id
            and leased.tenant_id = key.tenant_id
            and leased.partition_key = key.partition_key
            and leased.lease_until is not null
            and leased.lease_until > {statement_now}
            and leased.status = 0
          limit 1
      ) is null
      and (
          not ($4 or destination.ordering = 1)
          or (
              select true
              from {schema}outbox_delivery dead
              where dead.destination_id = key.destination_id
                and dead.tenant_id = key.tenant_id
                and dead.partition_key = key.partition_key
                and dead.status = 2
                and dead.event_seq < head.event_seq
                and dead.disposition is distinct from 'expired'
              limit 1
          ) is null
      )
)
update {schema}outbox_delivery d
set parked = false,
    due_at = least(greatest(d.due_at, head.key_free_at), d.expires_at)
from head
where d.destination_id = head.destination_id
  and d.event_seq = head.event_seq
  and d.event_seq = any (array(select event_seq from head))
