//! Sample projects and their records.

use elevo_core::{TenantId, TreePath};
use elevo_objects::{Content, Entry, Hash, Mode, SnapshotId, Tree};
use serde_json::json;

use super::tenants::{KEY, at, id_of};
use crate::catalog::*;
use crate::nodes::NodeId;
use crate::records::{
    BaseMove, Landed, Landing, LandingKind, LogEntry, PathChange, Project, Retention, Review,
    ReviewState, Sides, Step, VersionKind, Workspace, WorkspaceFiles, WorkspaceState,
};

/// A snapshot id that is unique for each number.
pub(crate) fn snapshot(n: u64) -> SnapshotId {
    let mut bytes = [0x5a; 32];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    SnapshotId(Hash::from_bytes(bytes))
}

/// The head of every new project.
pub(crate) fn first() -> SnapshotId {
    snapshot(0)
}

pub(crate) fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("a path")
}

pub(crate) fn file(n: u8) -> Entry {
    Entry::File {
        mode: Mode::FILE,
        content: Content::Chunk {
            hash: Hash::from_bytes([n; 32]),
            size: 1 + u64::from(n),
        },
    }
}

pub(crate) fn directory(files: u64) -> Entry {
    Entry::Directory {
        mode: Mode::EXECUTABLE,
        tree: Tree {
            root: Some(Hash::from_bytes([0xdd; 32])),
            count: files,
            bytes: files.saturating_mul(10),
        },
    }
}

pub(crate) fn project(tenant: TenantId, id: &str) -> Project {
    Project {
        id: id_of(id),
        tenant,
        name: format!("name of {id}"),
        description: None,
        head: first(),
        sequence: 0,
        policy_version: 0,
        retention: Retention::All,
        created: at(100),
        updated: at(100),
        removing: false,
    }
}

pub(crate) async fn add_project(catalog: &impl Catalog, project: &Project) {
    let added = catalog.add_project(project, &json!({})).await;
    added.unwrap_or_else(|error| panic!("{}: {error:?}", project.id));
}

/// A live workspace, created with [`KEY`].
pub(crate) fn workspace(tenant: TenantId, id: &str, project: Option<&str>) -> Workspace {
    Workspace {
        id: id_of(id),
        tenant,
        project: project.map(id_of),
        agent: None,
        key: id_of(KEY),
        name: None,
        base: first(),
        synced: first(),
        merges: 0,
        sync: json!({ "mode": "manual" }),
        read_only: false,
        follows: false,
        state: WorkspaceState::Live,
        node: NodeId::FIRST,
        generation: 1,
        files: WorkspaceFiles::default(),
        last_merge: None,
        expires: None,
        created: at(100),
        updated: at(100),
    }
}

pub(crate) async fn add_workspace(catalog: &impl Catalog, workspace: &Workspace) {
    let added = catalog.add_workspace(workspace).await;
    added.unwrap_or_else(|error| panic!("{}: {error:?}", workspace.id));
}

/// A change that adds a file.
pub(crate) fn added(at: &str, n: u8) -> PathChange {
    PathChange {
        path: path(at),
        kind: VersionKind::Added,
        from: None,
        before: None,
        after: Some(file(n)),
        files: 1,
        algorithm: "take".into(),
    }
}

/// A change that adds a directory with this many files.
pub(crate) fn added_whole(at: &str, files: u64) -> PathChange {
    PathChange {
        after: Some(directory(files)),
        files,
        ..added(at, 0)
    }
}

/// A merge that changes only the head.
pub(crate) fn step(snapshot: SnapshotId) -> Step {
    Step {
        kind: LandingKind::Merge,
        snapshot,
        agent: None,
        workspace: None,
        key: id_of(KEY),
        message: String::new(),
        request: None,
        counts: json!({}),
        changes: vec![],
        reviews: vec![],
        opens: vec![],
        base: None,
    }
}

/// A merge that changes only the head, with a request.
pub(crate) fn requested(snapshot: SnapshotId, request: &str) -> Step {
    Step {
        request: Some(request.into()),
        ..step(snapshot)
    }
}

pub(crate) fn move_base(expected: u64, to: u64) -> Option<BaseMove> {
    Some(BaseMove {
        expected: snapshot(expected),
        base: snapshot(to),
        synced: snapshot(to),
        settled: Vec::new(),
    })
}

pub(crate) fn landing(project: &Project, expected: SnapshotId, steps: Vec<Step>) -> Landing {
    Landing {
        tenant: project.tenant,
        project: project.id.clone(),
        expected_head: expected,
        expected_policy: project.policy_version,
        steps,
        now: at(200),
    }
}

/// Lands steps on the present head.
pub(crate) async fn land(catalog: &impl Catalog, project: &Project, steps: Vec<Step>) -> Landed {
    let now = get_project(catalog, project).await;
    let landed = catalog.land(&landing(project, now.head, steps)).await;
    landed.unwrap_or_else(|error| panic!("{}: {error:?}", project.id))
}

/// Lands one step after another, each with some changes and a snapshot of its
/// own.
pub(crate) async fn land_each(
    catalog: &impl Catalog,
    project: &Project,
    landings: impl IntoIterator<Item = Vec<PathChange>>,
) {
    for changes in landings {
        let next = get_project(catalog, project).await.sequence + 1;
        let step = Step {
            changes,
            ..step(snapshot(next))
        };
        land(catalog, project, vec![step]).await;
    }
}

pub(crate) async fn get_project(catalog: &impl Catalog, project: &Project) -> Project {
    let found = catalog.project(project.tenant, &project.id).await;
    found.expect("project").expect("it was added")
}

pub(crate) async fn whole_log(catalog: &impl Catalog, project: &Project) -> Vec<LogEntry> {
    let log = catalog
        .log(project.tenant, &project.id, None, crate::limits::MAX_PAGE)
        .await;
    log.expect("log")
}

/// An open review.
pub(crate) fn review(
    project: &Project,
    id: &str,
    workspace: Option<&str>,
    at_path: &str,
) -> Review {
    Review {
        id: id_of(id),
        tenant: project.tenant,
        project: project.id.clone(),
        workspace: workspace.map(id_of),
        agent: None,
        path: path(at_path),
        kind: "conflict".into(),
        sides: Sides {
            base: None,
            ours: Some(file(1)),
            theirs: Some(file(2)),
            base_snapshot: snapshot(0),
            ours_snapshot: snapshot(1),
            theirs_snapshot: snapshot(2),
        },
        algorithm: "text".into(),
        state: ReviewState::Open,
        detail: json!({}),
        created: at(300),
        expires: None,
        closed: None,
        closed_by: None,
        resolution: None,
        successor: None,
        reopened: 0,
    }
}

/// Opens reviews with a step that does not move the head.
pub(crate) async fn open(catalog: &impl Catalog, project: &Project, reviews: Vec<Review>) {
    let head = get_project(catalog, project).await.head;
    let held = Step {
        opens: reviews,
        ..step(head)
    };
    land(catalog, project, vec![held]).await;
}

pub(crate) async fn get_review(catalog: &impl Catalog, review: &Review) -> Review {
    let found = catalog.review(review.tenant, &review.id).await;
    found.expect("review").expect("it was opened")
}
