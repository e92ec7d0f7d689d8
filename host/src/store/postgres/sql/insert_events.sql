-- Inserts events as any producer would, in their order; those that exist are left as they are.
insert into {schema}outbox_event
    (tenant_id, event_id, topic, payload, partition_key, headers, content_type, available_at, expires_at)
select tenant_id, event_id, topic, payload, partition_key, headers::jsonb, coalesce(content_type, 'application/json'),
       available_at, expires_at
from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::timestamptz[],
            $9::timestamptz[])
    with ordinality as event (tenant_id, event_id, topic, payload, partition_key, headers, content_type,
        available_at, expires_at, place)
order by place
on conflict (tenant_id, event_id) do nothing
returning seq, tenant_id, event_id
