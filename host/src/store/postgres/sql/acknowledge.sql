-- Ends attempts, each judged by its own token and unexpired lease at this moment; writes the
-- history of all. A fenced one changes no delivery and is an uncertain effect in the history.
with result as materialized (
    select *
    from unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::bigint[], $5::smallint[], $6::bigint[], $7::text[],
                $8::text[], $9::text[], $10::text[], $11::integer[], $12::timestamptz[], $13::timestamptz[],
                $14::text[], $15::text[], $16::text[], $17::boolean[], $18::text[],
                $19::boolean[])
        with ordinality as r (destination_id, event_seq, token, fence, write, wait_us, disposition,
                reference, last_error, host, attempt, started_at, ended_at,
                outcome, code, message, uncertain, component_digest, lane_works, place)
),
-- Locked in one order first, so that two batches never wait for each other, and the clock is read
-- after the wait for a lock.
held as materialized (
    select d.destination_id, d.event_seq, r.place
    from result r
    join {schema}outbox_delivery d on d.destination_id = r.destination_id and d.event_seq = r.event_seq
    where d.claim_token = r.token
    order by d.destination_id, d.event_seq
    for update of d
),
settled as (
    -- Writes: 0 delivered, 1 dead, 2 retry, 3 defer.
    update {schema}outbox_delivery d
    set status = case r.write when 0 then 1 when 1 then 2 else 0 end,
        attempts = d.attempts - case when r.write = 3 then 1 else 0 end,
        deferrals = d.deferrals + case when r.write = 3 then 1 else 0 end,
        last_deferred_at = case when r.write = 3 then {now} else d.last_deferred_at end,
        uncertain = d.uncertain or r.uncertain,
        claim_token = null,
        lease_until = null,
        claimed_by = null,
        due_at = case when r.write >= 2
            then least({now} + r.wait_us * interval '1 microsecond', d.expires_at)
            else d.due_at end,
        disposition = r.disposition,
        reference = r.reference,
        last_error = r.last_error,
        finished_at = case when r.write <= 1 then {now} end
    from held
    join result r using (place)
    where d.destination_id = held.destination_id
      and d.event_seq = held.event_seq
      and d.status = 0
      and d.claim_token = r.token
      and d.fence = r.fence
      and d.lease_until > {now}
    returning r.place, r.write, r.lane_works, d.destination_id, d.tenant_id, d.partition_key
),
-- Written once after a deferral, so that ordinary deliveries don't queue for the lane's row.
lane as (
    update {schema}outbox_destination
    set last_success_at = case
            when exists (select from settled where lane_works and destination_id = id) then {now}
            else last_success_at end,
        last_deferral_at = case
            when exists (select from settled where write = 3 and destination_id = id) then {now}
            else last_deferral_at end
    where id in (select destination_id from settled where write = 3)
       or (id in (select destination_id from settled where lane_works)
           and last_deferral_at is not null
           and (last_success_at is null or last_success_at <= last_deferral_at))
),
history as (
    insert into {schema}outbox_attempt as a
        (event_seq, destination_id, fence, attempt, host, started_at, ended_at, outcome, code, message, uncertain,
         component_digest)
    -- Once an attempt, should a batch report it twice: the report that was recorded.
    select distinct on (r.event_seq, r.destination_id, r.fence)
           r.event_seq, r.destination_id, r.fence, r.attempt, r.host, r.started_at, r.ended_at, r.outcome, r.code,
           r.message, r.uncertain or settled.place is null, r.component_digest
    from result r
    left join settled using (place)
    order by r.event_seq, r.destination_id, r.fence, settled.place, r.place
    on conflict (event_seq, destination_id, fence) do update
    set attempt = excluded.attempt,
        host = excluded.host,
        started_at = excluded.started_at,
        ended_at = excluded.ended_at,
        outcome = excluded.outcome,
        code = excluded.code,
        message = excluded.message,
        uncertain = excluded.uncertain,
        component_digest = excluded.component_digest
    -- Only `lost` gives way: a report that is repeated changes nothing.
    where a.outcome = 'lost'
)
select place, destination_id, tenant_id, partition_key
from settled
