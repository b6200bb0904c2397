//! All calls of a catalog, and a catalog whose calls go to two processes in turn.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use elevo_core::{
    AgentId, KeyId, ProjectId, ReviewId, SandboxId, SandboxState, TenantId, Timestamp, TreePath,
    WebhookId, WorkspaceId,
};
use elevo_objects::SnapshotId;
use serde_json::Value;

use super::other::Other;
use super::wire::{Argument, Wire, to_bytes};
use crate::catalog::*;
use crate::change::*;
use crate::error::Result;
use crate::nodes::{Lease, Node, NodeId, ServerSession};
use crate::postgres::PostgresCatalog;
use crate::query::{AddLimits, Page, SandboxQuery};
use crate::records::*;

/// A catalog of this process and one of another.
#[derive(Debug)]
pub(in super::super) struct Alternating {
    own: PostgresCatalog,
    other: Other,
    turn: AtomicUsize,
}

impl Alternating {
    /// The first call goes to this process if `first` is even.
    pub(super) fn new(own: PostgresCatalog, other: Other, first: usize) -> Self {
        let turn = AtomicUsize::new(first);
        Self { own, other, turn }
    }

    fn is_own_turn(&self) -> bool {
        self.turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
    }
}

/// Each area is listed with its calls; items in braces at the end of an area are
/// taken as they are.
macro_rules! areas {
    ($($area:ident {
        $($call:ident($($name:ident: $argument:ty),* $(,)?) -> $result:ty;)*
        $({ $($rest:tt)* })?
    })*) => {
        $(
            #[async_trait]
            impl $area for Alternating {
                $(
                    async fn $call(&self, $($name: $argument),*) -> Result<$result> {
                        if self.is_own_turn() {
                            return $area::$call(&self.own, $($name),*).await;
                        }
                        #[allow(unused_mut, reason = "some calls have no arguments")]
                        let mut arguments = Vec::new();
                        $(Argument::give(&$name, &mut arguments);)*
                        self.other.ask(stringify!($call), &arguments).await
                    }
                )*
                $($($rest)*)?
            }
        )*

        /// Carries out a call and returns the encoded answer.
        pub(super) async fn answer(
            catalog: &PostgresCatalog,
            call: &str,
            arguments: &mut &[u8],
        ) -> Vec<u8> {
            match call {
                $($(
                    stringify!($call) => {
                        $(let $name = <<$argument as Argument<'_>>::Kept as Wire>::take(arguments);)*
                        $(let $name = <$argument as Argument<'_>>::lend(&$name);)*
                        to_bytes(&$area::$call(catalog, $($name),*).await)
                    }
                )*)*
                _ => panic!("an unknown call: {call}"),
            }
        }
    };
}

areas! {
    Agents {
        add_agent(agent: &Agent) -> ();
        agents(tenant: TenantId) -> Vec<Agent>;
        agent(tenant: TenantId, id: &AgentId) -> Option<Agent>;
        agent_by_name(tenant: TenantId, name: &str) -> Option<Agent>;
    }
    Commands {
        claim_command(tenant: TenantId, claim: &CommandClaim) -> Claimed;
        release_command(tenant: TenantId, sandbox: &SandboxId, id: &str) -> ();
    }
    Deliveries {
        queue_deliveries(
            owner: Option<TenantId>, webhook: &WebhookId, limit: u32, now: Timestamp,
        ) -> u64;
        pending_deliveries(
            owner: Option<TenantId>, webhook: &WebhookId, limit: u32,
        ) -> Vec<Delivery>;
        note_attempts(
            owner: Option<TenantId>, webhook: &WebhookId, attempts: &[Attempt], now: Timestamp,
        ) -> ();
        deliveries(
            owner: Option<TenantId>, webhook: &WebhookId, state: Option<DeliveryState>, before: Option<u64>, limit: u32,
        ) -> Vec<Delivery>;
        replay(owner: Option<TenantId>, webhook: &WebhookId, event: u64, now: Timestamp) -> bool;
    }
    Events {
        add_event(event: &NewEvent) -> ();
        events(query: &EventQuery) -> Vec<Event>;
        last_event() -> u64;
        wait_for_event(after: u64, at_most: Duration) -> u64;
        forgotten_events(tenant: TenantId) -> u64;
        forget_events(before: Timestamp) -> u64;
    }
    Keys {
        add_key(key: &ApiKey) -> ();
        key_of_any_tenant(hash: &[u8; 32]) -> Option<ApiKey>;
        access_of_any_tenant(hash: &[u8; 32], sandbox: Option<&SandboxId>) -> Option<Access>;
        key(tenant: TenantId, id: &KeyId) -> Option<ApiKey>;
        keys(tenant: TenantId) -> Vec<ApiKey>;
        revoke_key(tenant: TenantId, id: &KeyId, at: Timestamp) -> bool;
    }
    Landings {
        land(landing: &Landing) -> Landed;
        landing_by_request(
            tenant: TenantId, project: &ProjectId, request: &str,
        ) -> Option<LandedStep>;
        landing(tenant: TenantId, project: &ProjectId, sequence: u64) -> Option<LogEntry>;
        landing_of_snapshot(
            tenant: TenantId, project: &ProjectId, snapshot: SnapshotId,
        ) -> Option<LogEntry>;
        log(
            tenant: TenantId, project: &ProjectId, before: Option<u64>, limit: u32,
        ) -> Vec<LogEntry>;
    }
    Leases {
        take_lease(
            name: &str, session: ServerSession, duration: Duration, now: Timestamp,
        ) -> Option<Lease>;
        release_lease(name: &str, session: ServerSession, token: u64) -> bool;
        check_lease(name: &str, token: u64, now: Timestamp) -> bool;
    }
    Nodes {
        begin_session(node: &str, duration: Duration, now: Timestamp) -> Node;
        renew_session(session: ServerSession, duration: Duration, now: Timestamp) -> bool;
        sessions() -> Vec<Node>;
        is_in_use(now: Timestamp) -> bool;
        give_to(installation: &str, now: Timestamp) -> bool;
    }
    Policies {
        policy(tenant: TenantId, id: &ProjectId) -> Option<ProjectPolicy>;
        set_policy(
            tenant: TenantId, id: &ProjectId, expected_version: u64, policy: &Value, now: Timestamp,
        ) -> Project;
    }
    Projects {
        add_project(project: &Project, policy: &Value) -> ();
        project(tenant: TenantId, id: &ProjectId) -> Option<Project>;
        project_by_name(tenant: TenantId, name: &str) -> Option<Project>;
        projects(query: &ProjectQuery) -> Page<Project>;
        change_project(
            tenant: TenantId, id: &ProjectId, change: &ProjectChange, now: Timestamp,
        ) -> Project;
        begin_removal(tenant: TenantId, id: &ProjectId, now: Timestamp) -> Project;
        remove_project(tenant: TenantId, id: &ProjectId) -> bool;
    }
    Requests {
        begin(request: &IdempotentRequest) -> Begun;
        note_made(run: &RequestRun, made: &str) -> ();
        finish(run: &RequestRun, status: u16, body: Option<&[u8]>) -> ();
        release(run: &RequestRun) -> ();
        abandon(run: &RequestRun) -> ();
        release_of(process: &str) -> u64;
        release_all_but(alive: &[&str]) -> u64;
        forget_idempotent(now: Timestamp) -> u64;
    }
    VersionRetention {
        unkept_versions(project: &Project, query: &UnkeptQuery) -> Unkept;
        needed_versions(project: &Project) -> HashSet<SnapshotId>;
        drop_versions(
            project: &Project, snapshots: &[SnapshotId], now: Timestamp,
        ) -> Vec<SnapshotId>;
        dropped_from(tenant: TenantId, snapshot: SnapshotId) -> Vec<ProjectId>;
    }
    Reviews {
        review(tenant: TenantId, id: &ReviewId) -> Option<Review>;
        reviews(query: &ReviewQuery) -> Page<Review>;
        open_reviews_of(
            tenant: TenantId, workspace: &WorkspaceId, after: Option<&TreePath>, limit: u32,
        ) -> Vec<Review>;
        expired_reviews_of_all_tenants(now: Timestamp, limit: u32) -> Vec<Review>;
        change_review(
            tenant: TenantId, id: &ReviewId, change: &ReviewChange, now: Timestamp,
        ) -> Review;
    }
    SnapshotRoots {
        roots(tenant: TenantId, after: Option<&RootPlace>, limit: u32) -> Roots;
    }
    Sandboxes {
        add_sandbox(sandbox: &Sandbox, limits: AddLimits) -> ();
        add_sandboxes(sandboxes: &[Sandbox], limits: AddLimits) -> ();
        sandbox(tenant: TenantId, id: &SandboxId) -> Option<Sandbox>;
        sandbox_by_name(tenant: TenantId, name: &str) -> Option<Sandbox>;
        sandbox_of_any_tenant(id: &SandboxId) -> Option<Sandbox>;
        sandbox_of_workspace(tenant: TenantId, workspace: &WorkspaceId) -> Option<Sandbox>;
        sandboxes(query: &SandboxQuery) -> Page<Sandbox>;
        expired_sandboxes_of_all_tenants(node: NodeId, now: Timestamp, limit: u32) -> Vec<Sandbox>;
        change_sandbox(
            tenant: TenantId, id: &SandboxId, change: &SandboxChange, now: Timestamp,
        ) -> Sandbox;
        remove_sandbox(tenant: TenantId, id: &SandboxId, now: Timestamp) -> bool;
        count_of_key(tenant: TenantId, key: &KeyId) -> u64;
        count_by_state(tenant: Option<TenantId>) -> BTreeMap<SandboxState, u64>;
    }
    Settings {
        setting(name: &str) -> Option<String>;
        set_setting(name: &str, value: &str) -> ();
        remove_setting(name: &str) -> bool;
    }
    Snapshots {
        record_snapshot(snapshot: &ClientSnapshot) -> ClientSnapshot;
        remove_snapshot_name(tenant: TenantId, id: SnapshotId) -> Option<ClientSnapshot>;
        client_snapshot(tenant: TenantId, id: SnapshotId) -> Option<ClientSnapshot>;
        snapshot_by_name(tenant: TenantId, name: &str) -> Option<ClientSnapshot>;
        client_snapshots(query: &SnapshotQuery) -> Vec<ClientSnapshot>;
        unnamed_snapshots(
            tenant: TenantId, after: Option<SnapshotId>, limit: u32,
        ) -> Vec<SnapshotId>;
        forget_snapshot(tenant: TenantId, id: SnapshotId) -> bool;
    }
    Tags {
        set_tag(tenant: TenantId, tag: &Tag, may_move: bool) -> ();
        tag(tenant: TenantId, project: &ProjectId, name: &str) -> Option<Tag>;
        tags(tenant: TenantId, project: &ProjectId, after: Option<&str>, limit: u32) -> Vec<Tag>;
        remove_tag(tenant: TenantId, project: &ProjectId, name: &str) -> bool;
    }
    Templates {
        put_template(template: &Template) -> ();
        template(name: &str) -> Option<Template>;
        templates() -> Vec<Template>;
        remove_template(name: &str) -> bool;
    }
    Tenants {
        add_tenant(tenant: &Tenant) -> ();
        tenants() -> Vec<Tenant>;
        tenant(id: TenantId) -> Option<Tenant>;
        change_tenant(tenant: &Tenant) -> bool;
        begin_erasure(id: TenantId, at: Timestamp) -> Option<Tenant>;
        clear_tenant(id: TenantId) -> bool;
        remove_tenant(id: TenantId) -> bool;
    }
    Versions {
        versions_of(
            tenant: TenantId, project: &ProjectId, path: &TreePath, before: Option<u64>, limit: u32,
        ) -> Vec<FileVersion>;
        versions_below(
            tenant: TenantId, project: &ProjectId, directory: &TreePath, before: Option<u64>, limit: u32,
        ) -> Vec<FileVersion>;
        last_version(tenant: TenantId, project: &ProjectId, path: &TreePath) -> Option<FileVersion>;
        versions_in(
            tenant: TenantId, project: &ProjectId, sequence: u64, after: Option<&TreePath>, limit: u32,
        ) -> Vec<FileVersion>;
    }
    Webhooks {
        add_webhook(webhook: &Webhook) -> ();
        webhook(owner: Option<TenantId>, id: &WebhookId) -> Option<Webhook>;
        webhooks(owner: Option<TenantId>) -> Vec<Webhook>;
        webhooks_of_all_tenants() -> Vec<Webhook>;
        change_webhook(
            owner: Option<TenantId>, id: &WebhookId, change: &WebhookChange,
        ) -> Option<Webhook>;
        rotate_webhook(
            owner: Option<TenantId>, id: &WebhookId, secret: &str, keep_until: Option<Timestamp>,
        ) -> Option<Webhook>;
        seal_webhook_secrets(
            owner: Option<TenantId>, id: &WebhookId, secret: &str, previous: &str,
        ) -> bool;
        forget_webhook_secrets(now: Timestamp) -> u64;
        remove_webhook(owner: Option<TenantId>, id: &WebhookId) -> bool;
    }
    Workspaces {
        add_workspace(workspace: &Workspace) -> ();
        workspace(tenant: TenantId, id: &WorkspaceId) -> Option<Workspace>;
        workspaces_by_name(tenant: TenantId, name: &str) -> Vec<Workspace>;
        workspaces(query: &WorkspaceQuery) -> Page<Workspace>;
        expired_workspaces_of_all_tenants(
            node: NodeId, now: Timestamp, limit: u32,
        ) -> Vec<Workspace>;
        change_workspace(
            tenant: TenantId, id: &WorkspaceId, change: &WorkspaceChange, now: Timestamp,
        ) -> Workspace;
        unsettled(tenant: TenantId, workspace: &WorkspaceId) -> Vec<Unsettled>;
        remove_workspace(tenant: TenantId, id: &WorkspaceId) -> bool;
    }
    Catalog {
        move_expiry(by: i64, setting: &str, value: &str) -> ();
        check() -> ();
        {
            async fn close(&self) {
                self.own.close().await;
                self.other.close().await;
            }
        }
    }
}
