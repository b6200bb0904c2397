//! The suite that every catalog must pass: at least one check for each promise of
//! [`Catalog`].
//!
//! ```ignore
//! elevo_catalog::conformance_tests!(Temporary::new());
//! ```
//!
//! expands to one `#[tokio::test]` per check, each with its own [`Place`], which
//! must not hold a catalog yet. A failed check panics.

mod changes;
mod erasure;
mod events;
mod landings;
mod limits;
mod lists;
mod owners;
mod project_text;
mod projects;
mod refusals;
mod requests;
mod retention;
mod reviews;
mod roots;
mod samples;
mod sandboxes;
mod tags;
mod text;
mod versions;
mod whole;
mod workspaces;

use std::future::Future;

use elevo_core::{SandboxState, TenantId, Timestamp};
use serde_json::json;

pub use changes::*;
pub use erasure::*;
pub use events::*;
pub use landings::*;
pub use limits::*;
pub use lists::*;
pub use owners::*;
pub use project_text::*;
pub use projects::*;
pub use refusals::*;
pub use requests::*;
pub use retention::*;
pub use reviews::*;
pub use roots::*;
pub use sandboxes::*;
pub use tags::*;
pub use text::*;
pub use versions::*;
pub use whole::*;
pub use workspaces::*;

use crate::catalog::*;
use crate::change::SandboxChange;
use crate::error::{Error, Kind, Result};
use crate::query::{AddLimits, SandboxQuery};
use crate::records::{Agent, ApiKey, KeyLimits, Sandbox, Tenant};

/// The location of a catalog.
pub trait Place: Sync {
    /// The implementation to test.
    type Catalog: Catalog;

    /// Opens the catalog; a further call opens it as another process would.
    fn open(&self) -> impl Future<Output = Self::Catalog> + Send;
}

/// Expands to one test per check of [`conformance`](crate::conformance).
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::conformance_tests! {
            @each $make;
            a_tenant_is_added_once
            an_agent_is_added_once_to_its_tenant
            a_revoked_or_expired_key_is_found_by_its_hash
            a_key_is_added_once
            a_key_is_revoked_once
            nothing_crosses_tenants
            a_tenant_that_is_being_erased_stays_suspended
            a_tenant_that_is_being_erased_takes_nothing_new
            an_erased_tenant_leaves_nothing
            a_sandbox_comes_back_as_it_was_added
            a_sandbox_needs_its_owners
            sandboxes_are_added_all_or_none
            a_removed_sandbox_is_gone
            sandboxes_are_counted_by_state
            expired_sandboxes_are_found_oldest_first
            a_template_is_replaced_and_removed
            a_setting_is_kept
            a_change_changes_what_it_says_and_nothing_else
            states_change_only_as_they_may
            a_change_that_is_not_expected_changes_nothing
            a_sandbox_that_is_being_removed_cannot_start
            one_of_several_concurrent_changes_wins
            changes_of_different_parts_all_arrive
            limits_hold_under_concurrent_additions
            limits_of_tenants_hold_in_the_transaction_that_adds
            keys_of_one_agent_count_together
            sandboxes_that_are_being_removed_do_not_count
            a_batch_beyond_a_limit_adds_nothing
            pages_are_complete_and_in_order
            filters_are_combined
            the_beginning_of_a_name_is_taken_literally
            a_walk_sees_everything_once_while_others_add_and_remove
            no_page_skips_anything_while_others_add
            rejects_an_invalid_list_query
            a_request_is_carried_out_once
            another_content_under_the_same_name_is_a_mismatch
            an_old_request_counts_as_unknown
            an_abandoned_request_is_new
            a_released_request_is_begun_again_with_its_note
            only_the_process_at_work_changes_a_request
            requests_of_dead_processes_are_begun_again
            one_of_several_equal_concurrent_requests_is_new
            any_text_comes_back_as_it_was
            text_out_of_bounds_is_refused
            text_that_nothing_has_finds_nothing
            every_handle_reads_the_writes_of_the_others
            a_dropped_call_leaves_the_catalog_whole
            a_new_catalog_is_opened_by_many_at_once
            a_project_comes_back_as_it_was_added
            a_project_is_added_once
            projects_are_listed_newest_first
            a_project_is_renamed_and_described
            one_of_several_concurrent_policies_wins
            a_project_that_is_being_removed_takes_nothing_new
            a_project_with_a_sandbox_is_not_removed
            a_removed_project_leaves_nothing
            a_workspace_comes_back_as_it_was_added
            a_workspace_needs_its_owners
            workspaces_are_listed_newest_first
            a_workspace_changes_only_as_expected
            expired_workspaces_are_found_oldest_first
            a_workspace_is_in_one_sandbox
            every_expiry_moves_together
            one_of_several_concurrent_workspace_changes_wins
            a_removed_workspace_is_gone
            unsettled_conflicts_are_kept_until_they_are_settled
            a_landing_changes_all_it_says
            the_steps_of_a_landing_are_a_chain
            landings_at_once_are_a_chain
            a_landing_that_is_not_as_expected_changes_nothing
            a_landing_with_an_older_policy_changes_nothing
            a_landing_is_carried_out_once
            a_held_step_does_not_move_the_head
            a_landing_becomes_visible_as_a_whole
            a_dropped_landing_leaves_the_catalog_whole
            a_landing_out_of_bounds_is_refused
            the_history_of_a_path_has_what_changed_it
            histories_are_complete_in_pages_of_any_length
            the_changes_of_a_landing_are_listed_by_path
            any_change_of_a_path_comes_back_as_it_was
            a_review_comes_back_as_it_was_opened
            a_review_changes_only_as_it_may
            a_review_that_opens_again_may_offer_something_else
            one_of_several_concurrent_decisions_counts
            a_workspace_has_one_open_review_for_a_path
            reviews_are_listed_oldest_first
            open_reviews_are_found
            all_snapshots_that_must_stay_are_found
            versions_that_are_not_kept_are_found
            a_dropped_version_stays_in_the_log
            a_needed_version_is_not_dropped
            no_record_comes_to_need_a_dropped_version
            versions_are_dropped_only_as_expected
            a_version_that_came_back_counts_as_the_last_time
            either_a_drop_or_a_concurrent_workspace_wins
            a_dropped_version_is_not_a_root
            a_tag_comes_back_as_it_was_set
            a_tag_moves_only_when_it_may
            tags_are_listed_by_name
            a_change_of_a_sandbox_records_an_event
            the_event_of_an_expiry_states_whether_the_workspace_is_parked
            a_landing_records_its_events
            events_are_found_by_every_filter
            events_are_seen_in_the_order_of_their_numbers
            a_webhook_comes_back_as_it_was_added
            a_webhook_gets_the_events_that_it_may_see
            attempts_are_recorded_and_deliveries_replayed
            only_old_delivered_events_are_deleted
            a_webhook_keeps_no_events_of_other_tenants
            any_text_of_a_project_comes_back_as_it_was
            text_of_a_project_out_of_bounds_is_refused
            text_that_no_project_has_finds_nothing
        }
    };
    (@each $make:expr; $($check:ident)*) => {
        $(
            #[::tokio::test(flavor = "multi_thread")]
            async fn $check() {
                let place = $make;
                $crate::conformance::$check(&place).await;
            }
        )*
    };
}

const ALICE: TenantId = TenantId::new([0xa1; 16]);
/// The last tenant in byte order.
const BOB: TenantId = TenantId::new([0xff; 16]);
/// The agent of each of the two tenants.
const AGENT: &str = "agent";
/// The key of each tenant that is not bound to an agent.
const KEY: &str = "key";
/// Two keys of each tenant that are bound to the agent.
const AGENT_KEYS: [&str; 2] = ["agent-key-1", "agent-key-2"];

const NO_LIMITS: AddLimits = AddLimits {
    per_key: None,
    total: None,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 0).expect("no nanoseconds")
}

fn tenant(id: TenantId, name: &str) -> Tenant {
    Tenant::new(id, name, at(1))
}

fn agent(tenant: TenantId, id: &str) -> Agent {
    Agent {
        id: id.into(),
        tenant,
        name: format!("name of {id}"),
        created: at(2),
    }
}

/// A key with a hash derived from its tenant and id.
fn key(tenant: TenantId, id: &str, agent: Option<&str>) -> ApiKey {
    let mut hash = [tenant.as_bytes()[0]; 32];
    hash[1..=id.len()].copy_from_slice(id.as_bytes());
    ApiKey {
        id: id.into(),
        tenant,
        agent: agent.map(Into::into),
        name: format!("name of {id}"),
        hash,
        scopes: vec!["sandboxes".into(), "commands".into()],
        limits: KeyLimits {
            sandboxes: Some(10),
            ..KeyLimits::default()
        },
        created: at(3),
        expires: None,
        revoked: None,
    }
}

/// A sandbox in state `starting`, created with [`KEY`].
fn sandbox(tenant: TenantId, id: &str) -> Sandbox {
    Sandbox {
        id: id.into(),
        tenant,
        agent: None,
        key: KEY.into(),
        name: None,
        state: SandboxState::Starting,
        reason: None,
        template: "base".into(),
        container: None,
        workspace: format!("workspace of {id}"),
        token_hash: [7; 32],
        created: at(100),
        expires: at(1000),
        updated: at(100),
        removing: false,
        keep_workspace: false,
        spec: json!({ "memory": 1 << 30, "env": { "A": "b" } }),
    }
}

fn of_state(state: SandboxState) -> SandboxChange {
    SandboxChange {
        to: Some(state),
        ..SandboxChange::default()
    }
}

fn removing() -> SandboxChange {
    SandboxChange {
        removing: Some(true),
        ..SandboxChange::default()
    }
}

fn of_tenant(tenant: TenantId) -> SandboxQuery {
    SandboxQuery {
        tenant: Some(tenant),
        ..SandboxQuery::default()
    }
}

/// Opens the catalog of a new place and adds both tenants, their agents and their
/// keys.
async fn furnished<P: Place>(place: &P) -> P::Catalog {
    let catalog = place.open().await;
    for (id, name) in [(ALICE, "alice"), (BOB, "bob")] {
        let added = catalog.add_tenant(&tenant(id, name)).await;
        added.expect("a new tenant");
        catalog
            .add_agent(&agent(id, AGENT))
            .await
            .expect("a new agent");
        let of_agent = AGENT_KEYS.map(|name| key(id, name, Some(AGENT)));
        for key in of_agent.iter().chain([&key(id, KEY, None)]) {
            catalog.add_key(key).await.expect("a new key");
        }
    }
    catalog
}

async fn add(catalog: &impl Catalog, sandbox: &Sandbox) {
    let added = catalog.add_sandbox(sandbox, NO_LIMITS).await;
    added.unwrap_or_else(|error| panic!("{}: {error:?}", sandbox.id));
}

async fn get(catalog: &impl Catalog, id: &str) -> Option<Sandbox> {
    catalog.sandbox_of_any_tenant(id).await.expect("sandbox")
}

async fn list(catalog: &impl Catalog, query: &SandboxQuery) -> Vec<String> {
    let page = catalog.sandboxes(query).await.expect("sandboxes");
    page.items.into_iter().map(|sandbox| sandbox.id).collect()
}

fn assert_exists<T: std::fmt::Debug>(result: Result<T>, kind: Kind) {
    match result {
        Err(Error::Exists { what }) => assert_eq!(what, kind),
        other => panic!("such a {kind} should exist: {other:?}"),
    }
}

fn assert_not_found<T: std::fmt::Debug>(result: Result<T>, kind: Kind) {
    match result {
        Err(Error::NotFound { what }) => assert_eq!(what, kind),
        other => panic!("no such {kind} should be found: {other:?}"),
    }
}

fn assert_changed<T: std::fmt::Debug>(result: Result<T>, kind: Kind) {
    match result {
        Err(Error::Changed { what }) => assert_eq!(what, kind),
        other => panic!("the {kind} should have changed: {other:?}"),
    }
}

fn assert_being_removed<T: std::fmt::Debug>(result: Result<T>, kind: Kind) {
    match result {
        Err(Error::BeingRemoved { what }) => assert_eq!(what, kind),
        other => panic!("the {kind} should be going: {other:?}"),
    }
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T>) {
    assert!(
        matches!(result, Err(Error::Refused(_))),
        "should be refused: {result:?}"
    );
}
