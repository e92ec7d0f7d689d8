-- How far the outbox goes, and which transactions may still be writing.
select coalesce((select max(seq) from {schema}outbox_event), 0) as top,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_running,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next_xid
