//! The records of a catalog and the arguments of its calls as bytes.

use std::error::Error as StdError;

use elevo_core::{
    AgentId, KeyId, ProjectId, ReviewId, SandboxId, SandboxState, TenantId, Timestamp, TreePath,
    WebhookId, WorkspaceId,
};
use elevo_objects::{Entry, Hash, SnapshotId};

use super::wire::{Wire, choices, copied, forms, records};
use crate::change::*;
use crate::error::{Error, Kind, Limit};
use crate::nodes::{Lease, Node, NodeId, ServerSession};
use crate::query::{AddLimits, Page, Position, SandboxQuery};
use crate::records::*;
use crate::stored;

copied!(AddLimits DeliveryState NodeId ServerSession SnapshotId TenantId Timestamp);

macro_rules! ids {
    ($($id:ident)*) => {
        forms!($($id: String, $id::to_string, |text| text.parse().unwrap();)*);
    };
}

ids!(AgentId KeyId ProjectId ReviewId SandboxId SandboxState WebhookId WorkspaceId);

forms! {
    TenantId: [u8; 16], |id| *id.as_bytes(), TenantId::new;
    Timestamp: (i64, u32), |time| (time.seconds(), time.nanos()),
        |(seconds, nanos)| Timestamp::new(seconds, nanos).unwrap();
    TreePath: Vec<u8>, |path| path.as_bytes().to_vec(), |bytes| TreePath::new(bytes).unwrap();
    Hash: [u8; 32], |hash| *hash.as_bytes(), Hash::from_bytes;
    SnapshotId: Hash, |id| id.0, SnapshotId;
    Entry: Vec<u8>, stored::entry, |bytes| stored::read_entry(&bytes).unwrap();
    NodeId: u32, |node| node.0, NodeId;
    ServerSession: u64, |session| session.0, ServerSession;
    RootPlace: WalkPart, |place| place.0.clone(), RootPlace;
    Box<dyn StdError + Send + Sync>: String, ToString::to_string, Into::into;
}

impl<T: Wire> Wire for Page<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.items.put(to);
        self.total.put(to);
    }

    fn take(from: &mut &[u8]) -> Self {
        let items = Wire::take(from);
        let total = Wire::take(from);
        Self { items, total }
    }
}

records! {
    Tenant { id name created limits suspended erasing }
    TenantLimits {
        sandboxes memory disk stored workspaces projects requests_per_minute runtimes
        networks
    }
    Agent { id tenant name created }
    ApiKey { id tenant agent name hash scopes limits created expires revoked }
    KeyLimits {
        creates_per_minute commands_per_minute requests_per_minute sandboxes runtimes
        networks
    }
    Sandbox {
        id tenant agent key name state reason failure template container workspace
        token_hash created expires updated removing keep_workspace started_before node
        generation spec metadata project base
    }
    Template { name image description tags size writable_root created }
    SandboxChange {
        from generation to reason failure name container workspace expires token_hash
        removing keep_workspace started_before node spec metadata tells
    }
    SandboxQuery { tenant agent state name_prefix metadata node removing after page limit }
    Position { created id }
    AddLimits { per_key total }
    Node { id name session started expires }
    Lease { name token expires }
    Access { key tenant sandbox }
    CommandClaim { sandbox id fingerprint }
    NewEvent { tenant agent kind subject at data }
    Event { id event }
    EventQuery { tenant agent kinds subject after limit }
    Webhook { id tenant agent url secret previous_secret previous_until kinds created }
    WebhookChange { url kinds }
    Delivery { webhook event state attempts due status error updated }
    Attempt { event state attempts due status error }
    Landing { tenant project expected_head expected_policy steps now }
    Step { kind snapshot agent workspace key message request counts changes reviews opens base }
    ReviewStep { id change }
    BaseMove { expected base synced settled }
    Landed { head sequence steps }
    LandedStep { sequence head }
    LogEntry {
        project sequence snapshot parent kind agent workspace key message request counts
        created dropped
    }
    Project {
        id tenant name description head sequence policy_version retention created updated
        removing
    }
    ProjectPolicy { version policy }
    ProjectChange { name description retention }
    ProjectQuery { tenant removing after limit }
    RequestRun { tenant name process }
    IdempotentRequest { run fingerprint id now keep_until }
    UnkeptQuery { now since after limit }
    Unkept { snapshots next }
    Review {
        id tenant project workspace agent path kind sides algorithm state detail created
        expires closed closed_by resolution successor reopened
    }
    Sides { base ours theirs base_snapshot ours_snapshot theirs_snapshot }
    ReviewChange { from to by resolution successor sides detail expires }
    ReviewQuery { tenant project workspace state after limit }
    Roots { snapshots versions next }
    ClientSnapshot { tenant id tree workspace key agent message name created }
    SnapshotQuery { tenant agent workspace name_prefix after limit }
    Tag { project name snapshot key agent message created }
    PathChange { path kind from before after files algorithm }
    FileVersion { sequence snapshot change agent workspace created }
    Workspace {
        id tenant project agent key name base synced merges sync read_only follows state
        node generation files last_merge expires created updated
    }
    WorkspaceFiles { origin base home limit }
    Unsettled { path seen left marked }
    WorkspaceChange {
        expected from generation expired_by name base synced sync read_only follows state
        node files unsettled expires tells
    }
    WorkspaceQuery { tenant project agent state node after limit }
}

choices! {
    SandboxFailure { 0 AgentLost 1 ContainerEnded }
    Claimed { 0 New 1 Again 2 Taken }
    EventKind {
        0 SandboxCreated 1 SandboxStarting 2 SandboxRunning 3 SandboxStopped 4
        SandboxExpiring 5 SandboxExpired 6 SandboxDeleted 7 SandboxError 8 AgentConnected 9
        AgentDisconnected 10 WorkspaceExpired 11 ProjectLanded 12 ReviewOpened 13
        ReviewClosed 14 WorkspaceRefused
    }
    DeliveryState { 0 Pending 1 Delivered 2 Failed }
    LandingKind { 0 Merge 1 Apply 2 Revert 3 Restore 4 Import 5 Resolve 6 Archive }
    Begun { 0 New 1 Again { id made } 2 Done { id made status body } 3 Running 4 Mismatch }
    Retention { 0 All 1 Last(it) 2 Daily(it) 3 Named }
    ReviewState { 0 Open 1 Resolved 2 Rejected 3 Superseded 4 Expired }
    WalkPart {
        0 Heads { after } 1 Landings { project sequence } 2 Tags { project name } 3
        Workspaces { after } 4 Reviews { after } 5 Named { after }
    }
    VersionKind { 0 Added 1 Modified 2 Removed 3 Renamed 4 Mode }
    WorkspaceState { 0 Live 1 Parked 2 Removing }
    Error {
        0 NotFound { what }
        1 Exists { what }
        2 NameTaken { what }
        3 WrongState { is }
        4 Removing
        5 BeingRemoved { what }
        6 InUse { what sandbox }
        7 Changed { what }
        8 HeadMoved { head sequence }
        9 PolicyMoved { version }
        10 Dropped { snapshot }
        11 Repeated { request landed }
        12 LimitReached { which limit }
        13 Refused(it)
        14 Busy
        15 Full
        16 Newer { found known }
        17 Damaged(it)
        18 Failed(it)
    }
    Kind {
        0 Tenant 1 Agent 2 Key 3 Sandbox 4 Owner 5 Request 6 Project 7 Workspace 8 Review 9
        Tag 10 Snapshot 11 Webhook
    }
    Limit {
        0 SandboxesOfKey 1 Sandboxes 2 SandboxesOfTenant 3 MemoryOfTenant 4 DiskOfTenant 5
        WorkspacesOfTenant 6 ProjectsOfTenant 7 Tenants 8 Agents 9 Keys 10 Templates 11 Tags
        12 Webhooks
    }
}
