-- Events of ID $2, of tenant $1 if one is given.
select seq from {schema}outbox_event where ($1::text is null or tenant_id = $1) and event_id = $2 order by seq
