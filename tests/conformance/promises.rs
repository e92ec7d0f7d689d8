//! The lists. A database's module calls them with its type, which has `async fn open() -> Self`.

/// Makes a `#[test]` of each promise, named as the promise, in the calling module.
#[macro_export]
macro_rules! run_promises {
    ($database:path: $($module:ident { $($name:ident,)* })*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let database = <$database>::open().await;
                $crate::$module::$name(&database).await;
            }
        )*)*
    };
}

/// What every store promises.
#[macro_export]
macro_rules! promises {
    ($database:path) => {
        $crate::run_promises! { $database:
            fencing {
                a_lease_taken_at_100_for_20_can_be_acknowledged_at_119,
                at_120_the_lease_is_gone_and_only_the_second_worker_can_acknowledge,
                a_delivered_row_cannot_be_claimed,
                every_statement_of_a_worker_is_fenced_once_its_lease_ended,
                every_statement_of_a_worker_is_fenced_by_another_token,
                a_renewal_extends_the_lease_from_now,
                each_row_of_a_batch_is_judged_by_its_own_token,
                a_batch_may_hold_every_kind_of_end,
                a_retry_is_claimed_when_its_wait_ended_and_not_before,
                a_release_gives_the_attempt_back,
                a_deferral_gives_the_attempt_back_and_goes_behind_the_others,
                s2_attempts_are_counted_at_the_claim_and_run_out,
                attempts_used_up_by_a_lowered_limit_are_a_dead_letter_at_the_next_claim,
                s3_a_late_result_changes_no_delivery_and_replaces_lost_in_the_history,
                lost_never_overwrites_a_result_in_the_history,
                a_repeated_acknowledgement_is_fenced_and_changes_nothing,
                a_claim_takes_no_more_than_its_limit_in_due_order,
                two_claims_at_once_take_disjoint_deliveries_and_all_of_them,
                a_claim_brings_the_event_as_its_producer_wrote_it,
            }
        }
    };
}

/// What holds where producers' transactions can overlap: not on SQLite, which has one writer.
#[macro_export]
macro_rules! promises_of_overlapping_producers {
    ($database:path) => {
        $crate::run_promises! { $database: }
    };
}
