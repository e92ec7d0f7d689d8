-- Makes lane ?1 at epoch ?2 active again by its prober ?3; ?4 says whether its probe was delivered.
UPDATE outbox_destination
SET state = 'active',
    paused_until = NULL,
    reason = NULL,
    pauses = 0,
    last_success_at = CASE WHEN ?4 THEN {now} ELSE last_success_at END,
    probe_token = NULL,
    probe_until = NULL,
    epoch = epoch + 1
WHERE id = ?1
  AND epoch = ?2
  AND state = 'paused'
  AND paused_until IS NOT NULL
  AND probe_token = ?3
  AND probe_until > {now}
