-- Of the $3 newest deliveries for destination $1 before event $2: those delivered or dead, with their
-- events and what came of their last attempt; and the oldest of them, whatever its state, where the next
-- page goes on. Walks the primary key, so that a page costs the same wherever it lies.
with page as materialized (
    select event_seq, status, disposition, fence
    from {schema}outbox_delivery
    where destination_id = $1 and event_seq < $2
    order by event_seq desc
    limit $3
)
select d.event_seq, d.status, d.disposition, event.tenant_id, event.event_id, event.topic, event.partition_key,
       event.headers, event.content_type, octet_length(event.payload) as payload_bytes, event.created_at,
       event.expires_at, a.outcome, a.code
from page d
join {schema}outbox_event event on event.seq = d.event_seq
left join {schema}outbox_attempt a
    on a.event_seq = d.event_seq and a.destination_id = $1 and a.fence = d.fence
where d.status in (1, 2) or d.event_seq = (select min(event_seq) from page)
order by d.event_seq desc
