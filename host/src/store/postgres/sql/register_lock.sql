-- One registration at a time.
select count(pg_advisory_xact_lock(hashtextextended('outhaul registers a host', 0)))
