-- Payloads of events ?1 (JSON array).
SELECT seq, CAST(payload AS BLOB) AS payload
FROM outbox_event
WHERE seq IN (SELECT value FROM json_each(?1))
