select h.host_id, h.version, h.config_digest, h.schema_version, h.last_seen, h.notes,
       coalesce(h.config_digest = (
           select g.config_digest from {schema}outbox_generation g order by g.generation desc limit 1
       ), false) as is_current
from {schema}outbox_host h
order by h.last_seen desc
