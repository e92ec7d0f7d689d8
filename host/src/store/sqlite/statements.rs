//! The statements, one a file, each loaded once with the clock put in.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// This library's own clock, as old SQLite versions can say it too: milliseconds since 1970, in
/// microseconds.
const MACHINE_CLOCK: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000";

/// One of the two due indexes.
#[derive(Clone, Copy, Default)]
struct Due {
    /// Its predicate, to the letter: SQLite uses a partial index only for a query that says the same.
    which: &'static str,
    index: &'static str,
}

const ORDINARY: Due = Due { which: "d.lost + (d.claim_token IS NOT NULL) < 2", index: "outbox_delivery_due" };
const SUSPECT: Due =
    Due { which: "d.lost + (d.claim_token IS NOT NULL) >= 2", index: "outbox_delivery_due_suspect" };

macro_rules! statements {
    ($($name:ident = $file:ident $(by $due:ident)?;)*) => {
        pub(super) struct Statements {
            $(pub $name: SqlStr,)*
        }

        impl Statements {
            /// `now` replaces the clock; None is the machine's.
            pub fn load(now: Option<&str>) -> Self {
                let now = format!("({})", now.unwrap_or(MACHINE_CLOCK));
                Self {
                    $($name: load(
                        include_str!(concat!("sql/", stringify!($file), ".sql")),
                        &now,
                        [$($due)?].first().copied().unwrap_or_default(),
                    ),)*
                }
            }

            /// By name, for the test that prepares each and the one that reads its plan.
            pub fn all(&self) -> Vec<(&'static str, SqlStr)> {
                vec![$((stringify!($name), self.$name.clone()),)*]
            }
        }
    };
}

fn load(file: &str, now: &str, due: Due) -> SqlStr {
    let text = file
        .replace("{delivery_columns}", include_str!("sql/part_delivery_columns.sql").trim_end())
        .replace("{now}", now)
        .replace("{which}", due.which)
        .replace("{index}", due.index);
    // Safe: nothing but our own files and the clock is in it.
    AssertSqlSafe(Arc::<str>::from(text)).into_sql_str()
}

statements! {
    acknowledge = acknowledge;
    actions = actions;
    activate_lane = activate_lane;
    add_route = add_route;
    bury = bury;
    cancel = cancel;
    claim = claim;
    claim_lane = claim_lane;
    claim_ordinary = claim_candidates by ORDINARY;
    claim_suspect = claim_candidates by SUSPECT;
    clear_routes = clear_routes;
    configure_lane = configure_lane;
    count_rejections = count_rejections;
    create_lane = create_lane;
    data_version = data_version;
    dead_of_lane = dead_of_lane;
    delivered_of_lane = delivered_of_lane;
    destinations = destinations;
    discard = discard;
    drop_probe = drop_probe;
    drop_unrouted = drop_unrouted;
    emit = emit;
    expired_of_lane = expired_of_lane;
    find_events = find_events;
    find_lane = find_lane;
    forget_rejections = forget_rejections;
    generations = generations;
    heartbeat = heartbeat;
    hosts = hosts;
    keep_unrouted = keep_unrouted;
    lanes = lanes;
    list = list;
    list_dead = list_dead;
    list_of_events = list_of_events;
    list_pending = list_pending;
    newest_event = newest_event;
    next_parked_key = next_parked_key;
    note_deferral = note_deferral;
    note_rejection = note_rejection;
    note_success = note_success;
    now = now;
    operator_pause = operator_pause;
    orphan_window = orphan_window;
    park = park;
    pause_lane = pause_lane;
    payloads = payloads;
    pending_of_lane = pending_of_lane;
    record_action = record_action;
    record_attempts = record_attempts;
    record_lost = record_lost;
    recorded = recorded;
    redeliver = redeliver;
    redigest_lane = redigest_lane;
    redrive = redrive;
    release = release;
    remove_lanes = remove_lanes;
    rename_lane = rename_lane;
    renew = renew;
    reopen_lane = reopen_lane;
    revive_lane = revive_lane;
    report_lane = report_lane;
    report_unrouted = report_unrouted;
    route_events = route_events;
    prune_hosts = prune_hosts;
    show_attempts = show_attempts;
    show_event = show_event;
    silent_hosts = silent_hosts;
    stop_lane = stop_lane;
    take_generation = take_generation;
    take_probe = take_probe;
    targets_of_events = targets_of_events;
    unpark = unpark;
    unpark_unordered = unpark_unordered;
    unrouted_window = unrouted_window;
    upsert_host = upsert_host;
}
