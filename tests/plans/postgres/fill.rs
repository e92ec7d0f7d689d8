//! Two million events and their deliveries, made by the server, past the triggers.

use outhaul_tests::postgres::run;
use sqlx::PgConnection;

/// A million pending behind a million delivered, and thousands leased at the head.
pub const BUSY: i64 = 1;
/// A hundred thousand due deliveries of one key, whose head is in back-off.
pub const HOT: i64 = 2;
/// Ten thousand deliveries, none of them due.
pub const FUTURE: i64 = 3;
/// A thousand keys, half of whose 200,000 deliveries are delivered.
pub const MANY_KEYS: i64 = 4;

pub const LEASED_AT_THE_HEAD: i64 = 20_000;
pub const ROWS_OF_THE_HOT_KEY: i64 = 100_000;

/// Indexes are built after the rows, and nothing is logged: minutes become seconds, and a plan
/// knows no difference.
pub async fn fill(connection: &mut PgConnection) {
    let indexes: Vec<String> = sqlx::query_scalar(
        "select indexdef from pg_indexes where tablename = 'outbox_delivery' and indexname <> 'outbox_delivery_pkey'",
    )
    .fetch_all(&mut *connection)
    .await
    .expect("indexes");
    let drops: Vec<String> = sqlx::query_scalar(
        "select 'drop index ' || indexname from pg_indexes
         where tablename = 'outbox_delivery' and indexname <> 'outbox_delivery_pkey'",
    )
    .fetch_all(&mut *connection)
    .await
    .expect("indexes");
    assert!(indexes.len() >= 8, "{indexes:?}");
    run(
        connection,
        "alter table outbox_event set unlogged;
         alter table outbox_delivery set unlogged;
         alter table outbox_delivery drop constraint outbox_delivery_pkey;
         alter table outbox_event drop constraint outbox_event_identity",
    )
    .await;
    run(connection, drops.join(";")).await;
    insert(connection).await;
    run(
        connection,
        "set maintenance_work_mem = '256MB';
         alter table outbox_delivery add primary key (destination_id, event_seq);
         alter table outbox_event add constraint outbox_event_identity unique (tenant_id, event_id)",
    )
    .await;
    run(connection, indexes.join(";")).await;
}

async fn insert(connection: &mut PgConnection) {
    run(
        connection,
        format!(
            "set session_replication_role = replica;
             set synchronous_commit = off;
             alter table outbox_delivery set (autovacuum_enabled = off);
             alter table outbox_event set (autovacuum_enabled = off);

             insert into outbox_destination (id, name, ordering)
             select id, 'lane-' || id, case when id in ({HOT}, {MANY_KEYS}) then 1 else 0 end
             from generate_series(1, 100) id;
             insert into outbox_route (pattern, destination_id, generation) values ('never', {BUSY}, 1);

             insert into outbox_event (seq, event_id, topic, payload) overriding system value
             select seq, 'e-' || seq, 'order.created', '\\x7b7d'
             from generate_series(1, 2000000) seq;

             insert into outbox_delivery (destination_id, event_seq, status, due_at, attempts, finished_at, tenant_id)
             select {BUSY}, seq, 1, now() - interval '2 hours', 1, now(), ''
             from generate_series(1, 1000000) seq;
             insert into outbox_delivery (destination_id, event_seq, status, due_at, attempts, fence, claim_token,
                                          lease_until, claimed_by, claimed_at, tenant_id)
             select {BUSY}, seq, 0, now() + interval '1 hour', 1, 1, gen_random_uuid(), now() + interval '1 hour',
                    'other', now(), ''
             from generate_series(1000001, 1000000 + {LEASED_AT_THE_HEAD}) seq;
             insert into outbox_delivery (destination_id, event_seq, status, due_at, tenant_id)
             select {BUSY}, seq, 0, now() - interval '1 hour' + seq * interval '1 microsecond', ''
             from generate_series(1000001 + {LEASED_AT_THE_HEAD}, 2000000) seq;

             insert into outbox_delivery (destination_id, event_seq, status, due_at, attempts, tenant_id, partition_key)
             values ({HOT}, 1, 0, now() + interval '1 hour', 1, '', 'hot');
             insert into outbox_delivery (destination_id, event_seq, status, due_at, tenant_id, partition_key)
             select {HOT}, seq, 0, now() - interval '1 hour', '', 'hot'
             from generate_series(2, {ROWS_OF_THE_HOT_KEY} + 1) seq;

             insert into outbox_delivery (destination_id, event_seq, status, due_at, tenant_id, partition_key)
             select {MANY_KEYS}, seq, (seq <= 100000)::int, now() - interval '1 hour' + seq * interval '1 microsecond',
                    '', 'k' || seq % 1000
             from generate_series(1, 200000) seq;

             insert into outbox_delivery (destination_id, event_seq, status, due_at, tenant_id)
             select {FUTURE}, seq, 0, now() + interval '1 day', ''
             from generate_series(1, 10000) seq;
             set session_replication_role = origin"
        ),
    )
    .await;
}
