-- Takes up to $2 due deliveries of destination $1 for $3 microseconds, in due order, each with a new
-- token. What expired without a word is counted as lost and written to the history; used-up
-- attempts ($4) and a passed expiry become dead letters instead. Nothing while the lane is not
-- active, unless $6 is its unexpired probe token, nor while it keeps an order. $5 is the host.
with lane as materialized (
    select epoch, pauses, last_success_at
    from {schema}outbox_destination
    where id = $1
      and ordering = 0
      and (state = 'active' or (state = 'paused' and probe_token = $6 and probe_until > {statement_now}))
),
due as materialized (
    select event_seq,
           due_at,
           fence as old_fence,
           attempts as old_attempt,
           claimed_by as old_host,
           claimed_at as old_claimed_at,
           lease_until as old_lease_until,
           claim_token is not null as is_lost,
           case
               when expires_at <= {statement_now} then 'expired'
               when attempts >= $4 and claim_token is not null then 'attempts exhausted, last outcome unknown'
               when attempts >= $4 then 'attempts exhausted'
           end as death
    from {schema}outbox_delivery
    where destination_id = $1
      and status = 0
      and not parked
      and {which}
      and due_at <= {statement_now}
      and (lease_until is null or lease_until <= {statement_now})
      and exists (select from lane)
    order by due_at, event_seq
    limit $2
    for update skip locked
),
taken as (
    update {schema}outbox_delivery d
    set status = case when due.death is null then 0 else 2 end,
        attempts = d.attempts + case when due.death is null then 1 else 0 end,
        fence = d.fence + case when due.death is null then 1 else 0 end,
        lost = d.lost + case when due.is_lost then 1 else 0 end,
        uncertain = d.uncertain or due.is_lost,
        last_error = case when due.is_lost
            then 'lost: host ' || due.old_host || ' did not answer before its lease ended'
            else d.last_error end,
        claim_token = case when due.death is null then gen_random_uuid() end,
        lease_until = case when due.death is null then {statement_now} + $3 * interval '1 microsecond' end,
        due_at = case when due.death is null then {statement_now} + $3 * interval '1 microsecond' else d.due_at end,
        claimed_by = case when due.death is null then $5 end,
        claimed_at = case when due.death is null then {statement_now} end,
        first_claimed_at = coalesce(d.first_claimed_at, case when due.death is null then {statement_now} end),
        disposition = due.death,
        finished_at = case when due.death is not null then {statement_now} end
    from due
    where d.destination_id = $1
      -- An array, because the planner may otherwise read the whole table to join it.
      and d.event_seq = any (array(select event_seq from due))
      and d.event_seq = due.event_seq
    returning d.event_seq, due.due_at, due.is_lost, due.death, d.fence, d.claim_token, d.attempts, d.deferrals,
              d.lost, d.uncertain, d.claimed_at, d.first_claimed_at, d.last_deferred_at, d.expires_at
),
history as (
    insert into {schema}outbox_attempt
        (event_seq, destination_id, fence, attempt, host, started_at, ended_at, outcome, message, uncertain)
    select event_seq, $1, old_fence, old_attempt, coalesce(old_host, ''), old_claimed_at, old_lease_until,
           'lost', 'its lease ended without a word from its host', true
    from due
    where is_lost
    -- A result that came first stands.
    on conflict do nothing
)
select taken.event_seq,
       taken.is_lost,
       taken.death,
       taken.fence,
       taken.claim_token,
       taken.attempts,
       taken.deferrals,
       taken.lost,
       taken.uncertain,
       taken.claimed_at,
       taken.first_claimed_at,
       coalesce(taken.last_deferred_at < lane.last_success_at, false) as deferred_before_success,
       lane.epoch,
       lane.pauses,
       event.tenant_id,
       event.event_id,
       event.topic,
       event.partition_key,
       event.headers,
       event.content_type,
       event.created_at,
       taken.expires_at,
       octet_length(event.payload) as payload_bytes
from taken
cross join lane
join {schema}outbox_event event on event.seq = taken.event_seq
order by taken.due_at, taken.event_seq
