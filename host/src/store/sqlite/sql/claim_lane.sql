-- What a claim must know of lane ?1: whether it may take anything (?2 is a probe token), and the
-- time that the whole claim is judged by. Read under the write lock, so nothing moves before the
-- claim commits. Nothing where the lane keeps another order than ?3.
SELECT {now} AS now,
       state,
       epoch,
       pauses,
       last_success_at,
       coalesce(state = 'paused' AND probe_token = ?2 AND probe_until > {now}, 0) AS is_probe
FROM outbox_destination
WHERE id = ?1
  AND ordering = ?3
