-- The database's clock.
select {now} as now
