select seq, tenant_id, event_id, topic, partition_key, headers, content_type, octet_length(payload) as payload_bytes,
       created_at, available_at, expires_at
from {schema}outbox_event
where tenant_id = $1 and event_id = $2
