insert into {schema}outbox_host (host_id, version, config_digest, schema_version, last_seen)
values ($1, $2, $3, $4, {now})
on conflict (host_id) do update
set version = excluded.version,
    config_digest = excluded.config_digest,
    schema_version = excluded.schema_version,
    last_seen = excluded.last_seen
