-- Ordered lanes, second step, a later statement than the one that locked the keys, so that it sees
-- whatever their last holder committed: of the locked deliveries $7 claims up to $2 that are the
-- head of their key, and parks what stands behind one. $8: a dead head blocks too. The other
-- parameters and the rest as in claim.sql.
with lane as materialized (
    select epoch, pauses, last_success_at
    from {schema}outbox_destination
    where id = $1
      and ordering = case when $8 then 1 else 2 end
      and (state = 'active' or (state = 'paused' and probe_token = $6 and probe_until > {statement_now}))
),
judged as materialized (
    select d.event_seq,
           d.due_at,
           d.fence as old_fence,
           d.attempts as old_attempt,
           d.claimed_by as old_host,
           d.claimed_at as old_claimed_at,
           d.lease_until as old_lease_until,
           d.claim_token is not null as is_lost,
           case
               when d.expires_at <= {statement_now} then 'expired'
               when d.attempts >= $4 and d.claim_token is not null then 'attempts exhausted, last outcome unknown'
               when d.attempts >= $4 then 'attempts exhausted'
           end as death,
           -- Each is one probe of an index; `limit 1` keeps the planner from joining the backlog.
           d.partition_key is not null and (
               coalesce((
                   select true
                   from {schema}outbox_delivery other
                   where other.destination_id = $1
                     and other.tenant_id = d.tenant_id
                     and other.partition_key = d.partition_key
                     and other.lease_until is not null
                     and other.lease_until > {statement_now}
                   limit 1), false)
               or coalesce((
                   select true
                   from {schema}outbox_delivery earlier
                   where earlier.destination_id = $1
                     and earlier.tenant_id = d.tenant_id
                     and earlier.partition_key = d.partition_key
                     and earlier.status = 0
                     and earlier.event_seq < d.event_seq
                     and (earlier.expires_at is null or earlier.expires_at > {statement_now})
                   limit 1), false)
               or ($8 and coalesce((
                   select true
                   from {schema}outbox_delivery dead
                   where dead.destination_id = $1
                     and dead.tenant_id = d.tenant_id
                     and dead.partition_key = d.partition_key
                     and dead.status = 2
                     and dead.event_seq < d.event_seq
                     and dead.disposition is distinct from 'expired'
                   limit 1), false))
           ) as is_blocked
    from {schema}outbox_delivery d
    where d.destination_id = $1
      and d.event_seq = any ($7)
      and d.status = 0
      and (d.lease_until is null or d.lease_until <= {statement_now})
      and exists (select from lane)
),
due as materialized (
    select *
    from judged
    where death is not null or not is_blocked
    order by due_at, event_seq
    limit $2
),
parked as (
    update {schema}outbox_delivery d
    set parked = true,
        lost = d.lost + case when d.claim_token is null then 0 else 1 end,
        uncertain = d.uncertain or d.claim_token is not null,
        claim_token = null,
        lease_until = null,
        claimed_by = null
    where d.destination_id = $1
      and d.event_seq = any (array(select event_seq from judged where death is null and is_blocked))
    returning d.event_seq
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
    from judged
    where is_lost
      and event_seq in (select event_seq from parked union all select event_seq from due)
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
       octet_length(event.payload) as payload_bytes,
       (select count(*) from parked) as parked,
       (select count(*) from judged where is_lost and death is null and is_blocked) as parked_lost
from lane
left join taken on true
left join {schema}outbox_event event on event.seq = taken.event_seq
order by taken.due_at, taken.event_seq
