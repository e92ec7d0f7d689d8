//! Every statement this store sends, loaded once with its schema prefix and clock.

use sqlx::SqlStr;

use super::dialect::Dialect;

/// The predicates of the two due indexes, word for word as the migration has them: a due delivery
/// that still has its token is a claim that expired, and its loss counts already.
const ORDINARY: &str = "lost + case when claim_token is null then 0 else 1 end < 2";
const SUSPECT: &str = "lost + case when claim_token is null then 0 else 1 end >= 2";

macro_rules! statements {
    ($($name:ident = $file:literal $(, $which:expr)?;)*) => {
        pub(super) struct Statements {
            $(pub $name: SqlStr,)*
        }

        impl Statements {
            pub fn load(dialect: &Dialect) -> Self {
                Self { $($name: load(dialect, include_str!(concat!("sql/", $file, ".sql")), [$($which)?]),)* }
            }

            /// With their names, for the test that prepares each.
            pub fn all(&self) -> Vec<(&'static str, SqlStr)> {
                vec![$((stringify!($name), self.$name.clone()),)*]
            }
        }
    };
}

statements! {
    claim_ordinary = "claim", ORDINARY;
    claim_suspect = "claim", SUSPECT;
    candidates_ordinary = "claim_candidates", ORDINARY;
    candidates_suspect = "claim_candidates", SUSPECT;
    claim_keyed = "claim_keyed";
    lock_keys = "lock_keys";
    unpark = "unpark";
    acknowledge = "acknowledge";
    renew = "renew";
    release = "release";
    payloads = "payloads";
    lanes = "lanes";
    attend = "attend";
    now = "now";
    take_probe = "take_probe";
    pause_lane = "pause_lane";
    stop_lane = "stop_lane";
    reopen_lane = "reopen_lane";
    revive_lane = "revive_lane";
    drop_probe = "drop_probe";
    count_rejection = "count_rejection";
    register_lock = "register_lock";
    generations = "generations";
    take_generation = "take_generation";
    destinations = "destinations";
    add_destination = "add_destination";
    adopt_destination = "adopt_destination";
    remove_destinations = "remove_destinations";
    clear_routes = "clear_routes";
    add_routes = "add_routes";
    revive_changed = "revive_changed";
    set_wake = "set_wake";
    announce_host = "announce_host";
    heartbeat = "heartbeat";
    route_unrouted = "route_unrouted";
    adopt = "adopt";
    horizon = "horizon";
    bury_expired = "bury_expired";
    unpark_unordered = "unpark_unordered";
    parked_keys = "parked_keys";
    insert_events = "insert_events";
    lane_reports = "lane_reports";
    find_destination = "find_destination";
    pause_by_operator = "pause_by_operator";
    resume_by_operator = "resume_by_operator";
    find_events = "find_events";
    deliveries = "deliveries";
    deliveries_of_events = "deliveries_of_events";
    event = "event";
    recorded = "recorded";
    attempts = "attempts";
    cancel = "cancel";
    redeliver = "redeliver";
    redrive = "redrive";
    discard = "discard";
    add_action = "add_action";
    actions = "actions";
    hosts = "hosts";
    prune_hosts = "prune_hosts";
    event_payload = "event_payload";
    notify = "notify";
}

fn load<const N: usize>(dialect: &Dialect, file: &str, which: [&str; N]) -> SqlStr {
    let file = file
        .replace("{delivery_columns}", include_str!("sql/part_delivery_columns.sql").trim_end())
        .replace("{ordinary}", ORDINARY)
        .replace("{suspect}", SUSPECT);
    dialect.statement(&which.iter().fold(file, |file, predicate| file.replace("{which}", predicate)))
}
