//! The suite that every catalog must pass: at least one check for each promise of
//! [`Catalog`](crate::Catalog).
//!
//! ```ignore
//! elevo_catalog::conformance_tests!(Temporary::new());
//! ```
//!
//! expands to one `#[tokio::test]` per check, each with its own [`Backend`], which
//! must not hold a catalog yet. A failed check panics.

mod agents;
mod assertions;
mod backend;
mod catalog;
mod commands;
mod deliveries;
mod events;
mod keys;
mod landings;
mod leases;
mod names;
mod nodes;
mod policies;
mod projects;
mod requests;
mod retention;
mod reviews;
mod roots;
pub(crate) mod samples;
mod sandboxes;
mod settings;
mod snapshots;
mod tags;
mod templates;
mod tenants;
mod versions;
mod webhooks;
mod workspaces;

pub use self::agents::*;
pub use self::backend::Backend;
pub use self::catalog::*;
pub use self::commands::*;
pub use self::deliveries::*;
pub use self::events::*;
pub use self::keys::*;
pub use self::landings::*;
pub use self::leases::*;
pub use self::names::*;
pub use self::nodes::*;
pub use self::policies::*;
pub use self::projects::*;
pub use self::requests::*;
pub use self::retention::*;
pub use self::reviews::*;
pub use self::roots::*;
pub use self::sandboxes::*;
pub use self::settings::*;
pub use self::snapshots::*;
pub use self::tags::*;
pub use self::templates::*;
pub use self::tenants::*;
pub use self::versions::*;
pub use self::webhooks::*;
pub use self::workspaces::*;

/// Expands to one test per check of [`conformance`](crate::conformance).
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::conformance_tests! {
            @each $make;
            // tenants
            a_tenant_is_added_once
            a_tenant_is_not_renamed_to_the_name_of_another
            a_tenant_that_is_being_erased_stays_suspended
            a_tenant_that_is_being_erased_gets_no_new_records
            an_erased_tenant_leaves_no_records
            // agents
            an_agent_is_added_once_to_its_tenant
            // keys
            a_revoked_or_expired_key_is_found_by_its_hash
            a_key_is_added_once
            a_key_is_revoked_once
            a_key_is_found_with_its_tenant_and_a_sandbox
            a_key_finds_no_sandbox_of_another_tenant
            // sandboxes
            a_sandbox_is_read_back_as_added
            a_sandbox_needs_its_owners
            sandboxes_are_added_all_or_none
            a_removed_sandbox_is_gone
            sandboxes_are_counted_by_state
            sandboxes_are_counted_by_key
            expired_sandboxes_are_found_oldest_first
            a_change_sets_only_the_given_fields
            the_kind_of_a_failure_lasts_until_the_next_state
            a_state_changes_only_as_allowed
            an_unexpected_change_changes_nothing
            a_sandbox_that_is_being_removed_cannot_start
            one_of_several_concurrent_changes_wins
            concurrent_changes_of_different_fields_all_apply
            limits_hold_under_concurrent_additions
            limits_of_tenants_hold_under_concurrent_additions
            keys_of_one_agent_count_together
            sandboxes_that_are_being_removed_do_not_count
            a_batch_beyond_a_limit_adds_nothing
            pages_are_complete_and_in_order
            filters_are_combined
            sandboxes_are_found_by_their_metadata
            rejects_metadata_out_of_bounds
            a_prefix_of_a_name_is_matched_literally
            a_walk_returns_each_sandbox_once_during_changes
            numbered_pages_skip_no_sandbox_during_additions
            rejects_an_invalid_list_query
            a_workspace_is_in_one_sandbox
            // names
            the_name_of_a_sandbox_is_unique_in_its_tenant
            the_name_of_a_workspace_is_unique_in_its_project
            // templates
            a_template_is_replaced_and_removed
            // requests
            a_request_is_carried_out_once
            another_content_under_the_same_name_is_a_mismatch
            an_old_request_counts_as_unknown
            an_abandoned_request_is_new
            a_released_request_is_begun_again_with_its_note
            only_the_process_that_runs_a_request_changes_it
            requests_of_dead_processes_are_begun_again
            only_requests_of_a_dead_process_are_released
            one_of_several_equal_concurrent_requests_is_new
            // leases
            one_of_several_concurrent_takers_gets_a_lease
            a_lease_is_renewed_by_its_holder_alone
            an_expired_lease_passes_to_another_session
            the_token_of_an_expired_lease_is_rejected
            a_released_lease_can_be_taken_at_once
            // nodes
            a_node_has_one_session_at_a_time
            the_newest_session_of_a_node_is_renewed
            concurrent_sessions_have_different_numbers
            a_catalog_that_is_in_use_is_not_given_to_an_installation
            a_sandbox_of_another_generation_is_not_changed
            a_workspace_of_another_generation_is_not_changed
            // commands
            the_id_of_a_command_is_claimed_once
            a_claim_lasts_until_it_is_released_or_its_sandbox_removed
            one_of_several_concurrent_claims_is_new
            // settings
            a_setting_is_set_and_removed
            // projects
            a_project_is_read_back_as_added
            a_project_is_added_once
            projects_are_listed_newest_first
            a_project_is_renamed_and_described
            a_project_that_is_being_removed_gets_no_new_records
            a_project_with_a_sandbox_is_not_removed
            a_removed_project_leaves_no_records
            // policies
            one_of_several_concurrent_policies_wins
            // landings
            a_landing_changes_all_its_records
            the_steps_of_a_landing_are_a_chain
            concurrent_landings_are_a_chain
            an_unexpected_landing_changes_nothing
            a_landing_with_an_older_policy_changes_nothing
            a_landing_is_carried_out_once
            a_held_step_does_not_move_the_head
            a_landing_becomes_visible_as_a_whole
            a_dropped_landing_leaves_the_catalog_consistent
            a_landing_out_of_bounds_is_refused
            // versions
            the_history_of_a_path_has_every_change_of_it
            histories_are_complete_in_pages_of_any_length
            the_changes_below_a_directory_are_found
            the_changes_of_a_landing_are_listed_by_path
            any_change_of_a_path_is_read_back_unchanged
            // reviews
            a_review_is_read_back_as_opened
            a_review_changes_only_as_allowed
            a_reopened_review_can_have_other_sides
            one_of_several_concurrent_decisions_wins
            a_workspace_has_one_open_review_for_a_path
            reviews_are_listed_oldest_first
            open_reviews_are_found
            // workspaces
            a_workspace_is_read_back_as_added
            a_workspace_needs_its_owners
            workspaces_are_listed_newest_first
            a_workspace_changes_only_as_expected
            expired_workspaces_are_found_oldest_first
            one_of_several_concurrent_workspace_changes_wins
            a_removed_workspace_is_gone
            unsettled_conflicts_are_kept_until_they_are_settled
            // snapshots
            a_snapshot_is_read_back_as_recorded
            a_name_keeps_one_snapshot
            snapshots_are_listed_newest_first
            // tags
            a_tag_is_read_back_as_set
            a_tag_moves_only_if_allowed
            tags_are_listed_by_name
            // retention
            versions_outside_the_retention_are_found
            a_dropped_version_stays_in_the_log
            a_needed_version_is_not_dropped
            no_record_comes_to_need_a_dropped_version
            versions_are_dropped_only_as_expected
            a_version_that_is_the_head_again_is_as_old_as_its_last_landing
            either_a_drop_or_a_concurrent_workspace_wins
            a_dropped_version_is_not_a_root
            // roots
            all_snapshots_that_records_need_are_roots
            // events
            a_change_of_a_sandbox_records_an_event
            the_event_of_an_expiry_states_whether_the_workspace_is_parked
            a_landing_records_its_events
            events_are_found_by_every_filter
            events_are_seen_in_the_order_of_their_numbers
            only_old_delivered_events_are_deleted
            a_webhook_keeps_no_events_of_other_tenants
            // webhooks
            a_webhook_is_read_back_as_added
            a_webhook_is_changed
            a_rotation_keeps_the_previous_secret_for_a_time
            // deliveries
            a_webhook_gets_the_events_that_it_may_see
            attempts_are_recorded_and_deliveries_replayed
            // catalog
            nothing_crosses_tenants
            a_sandbox_of_another_tenant_is_unknown
            a_project_of_another_tenant_is_unknown
            a_review_of_another_tenant_is_unknown
            a_webhook_of_another_owner_is_unknown
            any_text_is_read_back_unchanged
            text_out_of_bounds_is_refused
            unknown_text_finds_nothing
            every_handle_reads_the_writes_of_the_others
            a_dropped_call_leaves_the_catalog_consistent
            a_new_catalog_is_opened_by_many_handles_at_once
            every_expiry_moves_together
            any_text_of_a_project_is_read_back_unchanged
            text_of_a_project_out_of_bounds_is_refused
            unknown_text_finds_no_project
        }
    };
    (@each $make:expr; $($check:ident)*) => {
        $(
            #[::tokio::test(flavor = "multi_thread")]
            async fn $check() {
                let backend = $make;
                $crate::conformance::$check(&backend).await;
            }
        )*
    };
}
