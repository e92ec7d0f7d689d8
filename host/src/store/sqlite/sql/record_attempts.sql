-- Writes results ?1 to the history: a JSON array of [event, destination, fence, attempt, host,
-- started, ended, outcome, code, message, uncertain, component digest]. One that was
-- fenced is uncertain and replaces `lost`, never another result.
INSERT INTO outbox_attempt
    (event_seq, destination_id, fence, attempt, host, started_at, ended_at, outcome, code, message, uncertain,
     component_digest)
SELECT r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, r.value ->> 5, r.value ->> 6,
       r.value ->> 7, r.value ->> 8, r.value ->> 9, r.value ->> 10, r.value ->> 11
FROM json_each(?1) r
WHERE EXISTS (
    SELECT 1 FROM outbox_delivery d WHERE d.destination_id = r.value ->> 1 AND d.event_seq = r.value ->> 0)
ON CONFLICT (event_seq, destination_id, fence) DO UPDATE
SET attempt = excluded.attempt,
    host = excluded.host,
    started_at = excluded.started_at,
    ended_at = excluded.ended_at,
    outcome = excluded.outcome,
    code = excluded.code,
    message = excluded.message,
    uncertain = excluded.uncertain,
    component_digest = excluded.component_digest
WHERE outbox_attempt.outcome = 'lost'
