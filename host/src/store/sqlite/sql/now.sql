-- The database's clock: on SQLite, the machine's own.
SELECT {now} AS now
