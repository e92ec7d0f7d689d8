-- Which of the lanes ?1 (JSON array) may run, and which have something due: a probe of the head of
-- each due index, whatever lies behind it.
SELECT lane.id,
       lane.state,
       lane.epoch,
       lane.pauses,
       lane.paused_until,
       lane.has_due,
       lane.has_due_suspect,
       lane.state = 'paused'
           AND coalesce(lane.paused_until <= {now}, 0)
           AND (lane.probe_token IS NULL OR lane.probe_until <= {now})
           AND (lane.has_due OR lane.has_due_suspect) AS wants_probe,
       min(coalesce(lane.next_ordinary, 9223372036854775807), coalesce(lane.next_suspect, 9223372036854775807))
           AS next_due_at
FROM (
    SELECT l.*,
           EXISTS (
               SELECT 1
               FROM outbox_delivery
               WHERE destination_id = l.id AND status = 0 AND parked = 0 AND lost + (claim_token IS NOT NULL) < 2
                 AND due_at <= {now}) AS has_due,
           EXISTS (
               SELECT 1
               FROM outbox_delivery
               WHERE destination_id = l.id AND status = 0 AND parked = 0 AND lost + (claim_token IS NOT NULL) >= 2
                 AND due_at <= {now}) AS has_due_suspect,
           (SELECT due_at
            FROM outbox_delivery
            WHERE destination_id = l.id AND status = 0 AND parked = 0 AND lost + (claim_token IS NOT NULL) < 2
              AND due_at > {now}
            ORDER BY due_at
            LIMIT 1) AS next_ordinary,
           (SELECT due_at
            FROM outbox_delivery
            WHERE destination_id = l.id AND status = 0 AND parked = 0 AND lost + (claim_token IS NOT NULL) >= 2
              AND due_at > {now}
            ORDER BY due_at
            LIMIT 1) AS next_suspect
    FROM json_each(?1) asked
    CROSS JOIN outbox_destination l ON l.id = asked.value
) lane
