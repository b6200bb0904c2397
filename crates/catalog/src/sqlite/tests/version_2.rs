//! Tests of a catalog that version 2 wrote, with a project and all its records.

use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_objects::{Content, Entry, Hash, Link, Mode, SnapshotId, Tree};
use serde_json::json;

use super::super::SqliteCatalog;
use super::{Temporary, id_of};
use crate::conformance::Backend;
use crate::nodes::NodeId;
use crate::records::{
    FileVersion, LandedStep, LandingKind, LogEntry, PathChange, Project, ProjectPolicy, Retention,
    Review, ReviewState, Sides, VersionKind, Workspace, WorkspaceFiles, WorkspaceState,
};

pub(super) const TENANT: TenantId = TenantId::new([0xa1; 16]);

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + seconds, 123_456_000).unwrap()
}

fn hash(byte: u8) -> Hash {
    Hash::from_bytes([byte; 32])
}

pub(super) fn snapshot(byte: u8) -> SnapshotId {
    SnapshotId(hash(byte))
}

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

pub(super) fn project() -> Project {
    Project {
        id: id_of("prj-1"),
        tenant: TENANT,
        name: "handbook".into(),
        description: Some("words".into()),
        head: snapshot(2),
        sequence: 2,
        policy_version: 3,
        retention: Retention::All,
        created: at(0),
        updated: at(3),
        removing: false,
    }
}

fn workspace() -> Workspace {
    Workspace {
        id: id_of("ws-1"),
        tenant: TENANT,
        project: Some(id_of("prj-1")),
        agent: Some(id_of("agt-1")),
        key: id_of("key-1"),
        name: Some("mine".into()),
        base: snapshot(2),
        synced: snapshot(2),
        merges: 1,
        sync: json!({ "mode": "manual" }),
        read_only: false,
        follows: true,
        state: WorkspaceState::Parked,
        node: NodeId::FIRST,
        generation: 1,
        files: WorkspaceFiles::default(),
        last_merge: Some(at(3)),
        expires: None,
        created: at(1),
        updated: at(3),
    }
}

pub(super) fn log() -> [LogEntry; 2] {
    let import = LogEntry {
        project: id_of("prj-1"),
        sequence: 1,
        snapshot: snapshot(1),
        parent: snapshot(0),
        kind: LandingKind::Import,
        agent: None,
        workspace: None,
        key: id_of("key-1"),
        message: String::new(),
        request: None,
        counts: json!({}),
        created: at(2),
        dropped: None,
    };
    let merge = LogEntry {
        sequence: 2,
        snapshot: snapshot(2),
        parent: snapshot(1),
        kind: LandingKind::Merge,
        agent: Some(id_of("agt-1")),
        workspace: Some(id_of("ws-1")),
        message: "better\nwords".into(),
        request: Some("req-1".into()),
        counts: json!({ "added": 1 }),
        created: at(3),
        ..import.clone()
    };
    [merge, import]
}

fn change(at: &str, kind: VersionKind) -> PathChange {
    PathChange {
        path: path(at),
        kind,
        from: None,
        before: None,
        after: None,
        files: 1,
        algorithm: "take".into(),
    }
}

/// Returns changes of every kind, with entries of every kind.
fn changes() -> [Vec<PathChange>; 2] {
    let mode = Mode::FILE;
    let file = |content| Some(Entry::File { mode, content });
    let chunk = Content::Chunk {
        hash: hash(7),
        size: 5,
    };
    let list = Content::List {
        hash: hash(8),
        size: 1 << 40,
    };
    let tree = Tree {
        root: Some(hash(9)),
        count: 1_000_000,
        bytes: 1 << 50,
    };
    let directory = |tree| {
        let mode = Mode::EXECUTABLE;
        Some(Entry::Directory { mode, tree })
    };
    let whole = PathChange {
        after: directory(tree),
        files: 900_000,
        ..change("", VersionKind::Added)
    };
    let link = Link {
        hash: hash(6),
        size: 3,
    };
    let merged = vec![
        PathChange {
            before: file(chunk),
            after: file(list),
            algorithm: "text".into(),
            ..change("a/b", VersionKind::Modified)
        },
        PathChange {
            before: Some(Entry::Link(link)),
            ..change("a-b", VersionKind::Removed)
        },
        PathChange {
            after: directory(Tree::EMPTY),
            files: 0,
            ..change("c", VersionKind::Added)
        },
        PathChange {
            before: file(Content::Empty),
            after: file(Content::Empty),
            ..change("x", VersionKind::Mode)
        },
        PathChange {
            from: Some(path("a-b")),
            after: Some(Entry::Link(link)),
            ..change("ü", VersionKind::Renamed)
        },
    ];
    [vec![whole], merged]
}

fn reviews() -> [Review; 2] {
    let open = Review {
        id: id_of("rev-2"),
        tenant: TENANT,
        project: id_of("prj-1"),
        workspace: Some(id_of("ws-1")),
        agent: Some(id_of("agt-1")),
        path: path("a/c"),
        kind: "conflict".into(),
        sides: Sides {
            base: None,
            ours: Some(Entry::File {
                mode: Mode::FILE,
                content: Content::Empty,
            }),
            theirs: None,
            base_snapshot: snapshot(0),
            ours_snapshot: snapshot(1),
            theirs_snapshot: snapshot(5),
        },
        algorithm: "text".into(),
        state: ReviewState::Open,
        detail: json!({ "hunks": 2 }),
        created: at(3),
        expires: Some(at(1000)),
        closed: None,
        closed_by: None,
        resolution: None,
        successor: None,
        reopened: 1,
    };
    let superseded = Review {
        id: id_of("rev-1"),
        state: ReviewState::Superseded,
        created: at(2),
        expires: None,
        closed: Some(at(3)),
        closed_by: Some("agt-1".into()),
        resolution: Some(json!("newer")),
        successor: Some(id_of("rev-2")),
        reopened: 0,
        ..open.clone()
    };
    [superseded, open]
}

#[tokio::test]
async fn a_catalog_of_version_2_is_read() {
    let temporary = Temporary::new();
    temporary.restore(include_str!("version-2.sql")).await;
    let catalog = temporary.open().await;
    let found = catalog.project(TENANT, &id_of("prj-1")).await.unwrap();
    assert_eq!(found, Some(project()));
    let found = catalog.workspace(TENANT, &id_of("ws-1")).await.unwrap();
    assert_eq!(found, Some(workspace()));
    let policy = ProjectPolicy {
        version: 3,
        policy: json!({ "rules": [] }),
    };
    let found = catalog.policy(TENANT, &id_of("prj-1")).await.unwrap();
    assert_eq!(found, Some(policy));
    assert_eq!(
        catalog
            .log(TENANT, &id_of("prj-1"), None, 10)
            .await
            .unwrap(),
        log()
    );
    for review in reviews() {
        let found = catalog.review(TENANT, &review.id).await.unwrap();
        assert_eq!(found, Some(review));
    }
    assert_requests(&catalog).await;
    assert_versions(&catalog).await;
}

async fn assert_requests(catalog: &SqliteCatalog) {
    for (request, sequence, head) in [("req-1", Some(2), 2), ("req-2", None, 2)] {
        let landed = LandedStep {
            sequence,
            head: snapshot(head),
        };
        let found = catalog
            .landing_by_request(TENANT, &id_of("prj-1"), request)
            .await
            .unwrap();
        assert_eq!(found, Some(landed));
    }
}

async fn assert_versions(catalog: &SqliteCatalog) {
    for (entry, changes) in log().iter().rev().zip(changes()) {
        let versions = changes.into_iter().map(|change| FileVersion {
            sequence: entry.sequence,
            snapshot: entry.snapshot,
            change,
            agent: entry.agent.clone(),
            workspace: entry.workspace.clone(),
            created: entry.created,
        });
        let found = catalog
            .versions_in(TENANT, &id_of("prj-1"), entry.sequence, None, 10)
            .await;
        assert_eq!(found.unwrap(), versions.collect::<Vec<_>>());
    }
    let history = catalog
        .versions_of(TENANT, &id_of("prj-1"), &path("a/b"), None, 10)
        .await;
    assert_eq!(history.unwrap().len(), 2, "the root counts");
}
