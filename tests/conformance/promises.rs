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
            keys {
                a_key_is_delivered_one_at_a_time_in_order_and_the_rest_is_free,
                back_off_of_a_head_blocks_its_key,
                a_head_that_is_not_available_yet_blocks_its_key,
                a_released_or_deferred_head_comes_before_its_followers,
                a_lost_head_is_claimed_again_before_its_followers,
                a_dead_head_blocks_its_key_until_it_is_discarded,
                a_dead_head_that_is_redriven_comes_first_again,
                a_dead_head_is_skipped_where_the_lane_says_so,
                an_exhausted_head_frees_its_key_where_dead_heads_are_skipped,
                an_expired_delivery_never_blocks_its_key,
                a_cancelled_delivery_keeps_its_lease_so_that_its_key_waits,
                a_redriven_earlier_event_waits_for_the_leased_later_one,
                an_earlier_event_comes_first_when_the_later_ones_lease_lapses,
                keys_are_apart_by_byte_by_tenant_and_by_destination,
                a_lane_without_order_ignores_keys,
                a_long_blocked_key_does_not_hide_what_is_due_behind_it,
                a_lane_that_no_longer_keeps_an_order_frees_what_was_parked,
                a_host_whose_config_has_another_order_for_the_lane_claims_nothing,
                two_claims_racing_for_one_key_never_both_win,
                a_claim_racing_an_acknowledgement_leaves_no_delivery_parked_for_ever,
            }
            due {
                an_event_is_not_delivered_before_it_is_available,
                an_unclaimed_event_is_a_dead_letter_when_it_expires,
                a_delivery_under_way_may_end_after_it_expired,
                a_retry_past_the_expiry_is_a_dead_letter_at_the_expiry,
                the_sweep_buries_what_expired_in_a_lane_that_claims_nothing,
                a_delivery_that_was_lost_twice_is_claimed_as_a_suspect_only,
                s12_poison_at_the_head_of_the_due_order_starves_nothing,
                a_lane_says_what_is_due_and_when_the_next_will_be,
            }
            lanes {
                a_paused_lane_gives_one_delivery_at_a_time_to_its_prober_only,
                a_dead_prober_blocks_nobody,
                a_failed_probe_pauses_longer_and_a_good_one_reopens,
                an_answer_from_an_earlier_epoch_moves_no_lane,
                an_operators_pause_is_never_probed_nor_overridden,
                a_resume_of_an_active_lane_starts_a_new_epoch,
                a_stopped_lane_waits_for_an_operator_or_a_changed_setting,
                a_replaced_plugin_revives_a_stopped_lane_and_no_other,
                rejections_in_a_row_are_counted_by_distinct_events,
                a_delivery_knows_that_it_was_deferred_before_the_lanes_latest_success,
                what_a_canary_delivers_is_no_success_of_the_lane,
                an_act_on_an_unknown_lane_is_refused_by_name,
            }
            routing {
                a_config_that_could_not_be_applied_whole_does_not_take_over_from_the_whole_one,
                an_event_goes_to_each_of_its_destinations_independently,
                topics_match_bytewise_and_at_any_depth,
                two_patterns_that_match_make_one_delivery,
                an_unrouted_event_is_kept_in_sight_and_routed_later_exactly_once,
                a_long_unrouted_backlog_is_compared_with_new_routes_without_a_pause,
                an_event_without_any_delivery_row_is_adopted,
                a_new_destination_gets_new_events_only,
                a_removed_destination_keeps_its_rows_and_gets_them_back,
                a_renamed_destination_keeps_its_id_and_its_rows,
                a_digest_never_seen_takes_the_next_generation_and_an_old_one_does_not,
                a_superseded_host_gets_no_id_for_what_the_current_config_never_had,
                a_host_touches_no_rows_of_a_destination_it_lacks,
                hosts_are_seen_with_their_config_and_what_they_say_of_themselves,
            }
            producers {
                a_committed_event_is_delivered_at_every_isolation_level,
                a_rolled_back_event_never_appears,
                an_orphan_that_commits_late_is_adopted,
                an_event_id_is_unique_within_its_tenant_byte_by_byte,
                texts_are_measured_in_bytes_and_a_long_one_is_refused_whole,
                emitting_tells_which_events_are_new_and_leaves_the_others_alone,
                a_wait_is_woken_by_a_commit_of_this_process,
            }
            operate {
                a_cancelled_delivery_is_not_claimed_and_its_late_result_is_fenced,
                s24_a_redrive_starts_attempts_again_and_keeps_both_series,
                s24_a_bulk_redrive_is_capped_and_staggered,
                an_expired_dead_letter_is_redriven_only_with_its_expiry_ignored,
                a_delivered_event_is_sent_again_on_purpose,
                a_discarded_dead_letter_is_finished,
                an_act_means_the_deliveries_it_names_and_no_others,
                a_list_is_filtered_and_goes_on_where_it_ended,
                a_page_may_end_between_two_deliveries_of_one_event,
                what_was_delivered_or_died_is_read_page_by_page_the_newest_first,
                hosts_that_were_silent_for_a_week_are_forgotten,
                a_report_counts_what_waits_what_runs_and_what_died,
                an_event_is_shown_with_its_deliveries_and_its_history,
                a_second_migration_changes_nothing,
            }
        }
    };
}

/// What holds where producers' transactions can overlap: not on SQLite, which has one writer.
#[macro_export]
macro_rules! promises_of_overlapping_producers {
    ($database:path) => {
        $crate::run_promises! { $database:
            producers {
                s11_a_lower_sequence_number_that_commits_later_is_delivered,
                s11_an_event_of_a_key_that_commits_late_waits_for_the_leased_one,
            }
        }
    };
}

/// What the tables of a real database refuse, whoever writes SQL to them.
#[macro_export]
macro_rules! promises_of_the_tables {
    ($database:path) => {
        $crate::run_promises! { $database:
            keys {
                one_claim_of_one_delivery_looks_past_many_behind_a_blocked_head,
            }
            guards {
                an_event_is_never_updated,
                an_event_is_deleted_only_when_all_its_deliveries_are_finished,
                an_event_that_was_never_routed_is_not_deleted,
                the_producers_whole_contract_is_three_columns,
                headers_are_an_object_of_strings,
            }
        }
    };
}
