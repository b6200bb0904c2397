//! Kills processes and simulates power loss of disks. Afterwards every
//! acknowledged change must exist, and no change may exist in part.
//!
//! `ELEVO_LONG` sets the number of rounds (see CONTRIBUTING.md); `ELEVO_SEED`
//! repeats a run with the same seed.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use elevo_catalog::{
    AddLimits, ApiKey, BaseMove, Error, KeyLimits, Landed, Landing, LandingKind, MAX_PAGE, NodeId,
    PathChange, Project, Retention, Sandbox, SandboxChange, SqliteCatalog, SqliteOptions, Step,
    Tenant, VersionKind, Workspace, WorkspaceFiles, WorkspaceState,
};
use elevo_core::{Id, SandboxId, SandboxState, TenantId, Timestamp, TreePath, WorkspaceId};
use elevo_objects::{Kind, SnapshotId};
use elevo_testkit::crash::{Kills, Running, Victim};
use elevo_testkit::disk::{self, Disk};
use elevo_testkit::long;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TENANT: TenantId = TenantId::LOCAL;
const FILE: &str = "catalog.db";
const TASKS: u64 = 4;
const DISK_BYTES: u64 = 1 << 30;
const NOW: Timestamp = Timestamp::new(1_700_000_000, 0).unwrap();

/// The project that all tasks land in.
const PROJECT: &str = "prj-1";
/// Number of paths that each step changes.
const CHANGES: usize = 5;

/// The stages of a sandbox in this test, in order.
const LIFE: [&str; 4] = ["added", "running", "removing", "removed"];

fn id_of<T: Id>(text: &str) -> T {
    text.parse().unwrap()
}

/// Returns the id of one sandbox of a pair.
fn sandbox_id(pair: &str, end: &str) -> SandboxId {
    id_of(&format!("sbx-{pair}-{end}"))
}

fn runtime() -> Runtime {
    Runtime::new().unwrap()
}

async fn open(directory: &Path) -> SqliteCatalog {
    let options = SqliteOptions::default();
    SqliteCatalog::open(&directory.join(FILE), &options)
        .await
        .unwrap()
}

/// Adds the tenant, the key and the project, unless an earlier victim did.
async fn furnish(catalog: &SqliteCatalog) {
    let tenant = Tenant::new(TENANT, "local", NOW);
    let key = ApiKey {
        id: id_of("key-1"),
        tenant: TENANT,
        agent: None,
        name: "key".into(),
        hash: [1; 32],
        scopes: vec![],
        limits: KeyLimits::default(),
        created: NOW,
        expires: None,
        revoked: None,
    };
    for added in [
        catalog.add_tenant(&tenant).await,
        catalog.add_key(&key).await,
        catalog.add_project(&project(), &json!({})).await,
    ] {
        assert!(matches!(added, Ok(()) | Err(Error::Exists { .. })));
    }
}

fn sandbox(id: &SandboxId) -> Sandbox {
    Sandbox {
        id: id.clone(),
        tenant: TENANT,
        agent: None,
        key: id_of("key-1"),
        name: None,
        state: SandboxState::Starting,
        reason: None,
        failure: None,
        template: "base".into(),
        container: None,
        workspace: id.into(),
        token_hash: [2; 32],
        created: NOW,
        expires: NOW,
        updated: NOW,
        removing: false,
        keep_workspace: false,
        started_before: false,
        node: NodeId::FIRST,
        generation: 1,
        // More than a page, so that a row takes several writes.
        spec: Value::from(id.repeat(400)),
        metadata: BTreeMap::new(),
        project: None,
        base: None,
    }
}

/// Adds a pair of sandboxes and takes the first one through `steps` further
/// stages. Acknowledges each stage.
async fn live(catalog: &SqliteCatalog, victim: &Victim, pair: &str, steps: usize) {
    let ids = ["a", "b"].map(|end| sandbox_id(pair, end));
    let both = ids.each_ref().map(sandbox);
    let added = catalog.add_sandboxes(&both, AddLimits::default()).await;
    added.unwrap();
    victim.acknowledge(format_args!("{pair} added"));
    let changes = [
        SandboxChange {
            to: Some(SandboxState::Running),
            container: Some(Some(pair.into())),
            ..SandboxChange::default()
        },
        SandboxChange {
            removing: Some(true),
            ..SandboxChange::default()
        },
    ];
    for (change, step) in changes.iter().zip(&LIFE[1..]).take(steps) {
        catalog
            .change_sandbox(TENANT, &ids[0], change, NOW)
            .await
            .unwrap();
        victim.acknowledge(format_args!("{pair} {step}"));
    }
    if steps == 3 {
        catalog.remove_sandbox(TENANT, &ids[0], NOW).await.unwrap();
        victim.acknowledge(format_args!("{pair} removed"));
    }
}

fn project() -> Project {
    Project {
        id: id_of(PROJECT),
        tenant: TENANT,
        name: PROJECT.into(),
        description: None,
        head: snapshot_of("nothing"),
        sequence: 0,
        policy_version: 0,
        retention: Retention::All,
        created: NOW,
        updated: NOW,
        removing: false,
    }
}

fn workspace(id: &str) -> Workspace {
    Workspace {
        id: id_of(id),
        tenant: TENANT,
        project: Some(id_of(PROJECT)),
        agent: None,
        key: id_of("key-1"),
        name: None,
        base: snapshot_of("nothing"),
        synced: snapshot_of("nothing"),
        merges: 0,
        sync: json!({}),
        read_only: false,
        follows: false,
        state: WorkspaceState::Live,
        node: NodeId::FIRST,
        generation: 1,
        files: WorkspaceFiles::default(),
        last_merge: None,
        expires: None,
        created: NOW,
        updated: NOW,
    }
}

/// Returns the snapshot that the step with that request leads to.
fn snapshot_of(request: &str) -> SnapshotId {
    SnapshotId(Kind::Snapshot.hash(request.as_bytes()))
}

fn step(workspace: &str, request: &str, base: SnapshotId) -> Step {
    let change = |n: usize| PathChange {
        path: TreePath::new(format!("{request}/{n}")).unwrap(),
        kind: VersionKind::Removed,
        from: None,
        before: None,
        after: None,
        files: 1,
        algorithm: "take".into(),
    };
    Step {
        kind: LandingKind::Merge,
        snapshot: snapshot_of(request),
        agent: None,
        workspace: Some(id_of(workspace)),
        key: id_of("key-1"),
        message: request.into(),
        request: Some(request.into()),
        counts: json!({}),
        changes: (0..CHANGES).map(change).collect(),
        reviews: vec![],
        opens: vec![],
        base: Some(BaseMove {
            expected: base,
            base: snapshot_of(request),
            synced: snapshot_of(request),
            settled: Vec::new(),
        }),
    }
}

/// Lands a batch of one to three steps and acknowledges each.
async fn land(catalog: &SqliteCatalog, victim: &Victim, workspace: &str, n: usize) {
    let requests: Vec<_> = (0..=n % 3)
        .map(|k| format!("{workspace}-{n}-{k}"))
        .collect();
    let mut base = catalog.workspace(TENANT, &id_of(workspace)).await.unwrap();
    let mut base = base.take().unwrap().base;
    let mut steps = Vec::new();
    for request in &requests {
        steps.push(step(workspace, request, base));
        base = snapshot_of(request);
    }
    let landed = land_on_any_head(catalog, steps).await;
    for (request, step) in requests.iter().zip(landed.steps) {
        victim.acknowledge(format_args!("landed {request} {}", step.sequence.unwrap()));
    }
}

async fn land_on_any_head(catalog: &SqliteCatalog, steps: Vec<Step>) -> Landed {
    let project = catalog.project(TENANT, &id_of(PROJECT)).await.unwrap();
    let project = project.unwrap();
    let mut landing = Landing {
        tenant: TENANT,
        project: project.id,
        expected_head: project.head,
        expected_policy: project.policy_version,
        steps,
        now: NOW,
    };
    loop {
        match catalog.land(&landing).await {
            Err(Error::HeadMoved { head, .. }) => landing.expected_head = head,
            landed => return landed.unwrap(),
        }
    }
}

fn work_without_end(victim: Victim) {
    let victim = Arc::new(victim);
    runtime().block_on(async {
        let catalog = Arc::new(open(victim.directory()).await);
        furnish(&catalog).await;
        let mut tasks = Vec::new();
        for task in 0..TASKS {
            let (catalog, victim) = (Arc::clone(&catalog), Arc::clone(&victim));
            tasks.push(tokio::spawn(async move {
                let branch = format!("{}-{task}", victim.seed());
                catalog.add_workspace(&workspace(&branch)).await.unwrap();
                for n in 0.. {
                    land(&catalog, &victim, &branch, n).await;
                    live(&catalog, &victim, &format!("{branch}-{n}"), n % 4).await;
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

async fn verify(directory: &Path, acknowledged: &[String]) {
    let catalog = open(directory).await;
    let landed: Vec<_> = acknowledged
        .iter()
        .filter_map(|line| line.strip_prefix("landed ")?.split_once(' '))
        .map(|(request, sequence)| (request, sequence.parse().unwrap()))
        .collect();
    assert_landed(&catalog, &landed).await;
    let of_pairs = |line: &&String| !line.starts_with("landed ");
    assert_lives(&catalog, acknowledged.iter().filter(of_pairs)).await;
    catalog.close().await;
    assert_sound(directory).await;
}

/// Panics unless the log is a chain that ends in the head and has every
/// acknowledged request exactly once, and the bases of the workspaces match the
/// log.
async fn assert_landed(catalog: &SqliteCatalog, acknowledged: &[(&str, u64)]) {
    let Some(project) = catalog.project(TENANT, &id_of(PROJECT)).await.unwrap() else {
        assert!(acknowledged.is_empty(), "the project is lost");
        return;
    };
    let (mut head, mut next) = (project.head, project.sequence);
    let mut known: HashMap<String, u64> = HashMap::new();
    let mut bases: HashMap<WorkspaceId, (SnapshotId, u64)> = HashMap::new();
    while next > 0 {
        for entry in catalog
            .log(TENANT, &project.id, Some(next + 1), MAX_PAGE)
            .await
            .unwrap()
        {
            assert_eq!((entry.snapshot, entry.sequence), (head, next));
            (head, next) = (entry.parent, next - 1);
            let request = entry.request.unwrap();
            assert_eq!(entry.snapshot, snapshot_of(&request));
            // The log has the newest entry of a workspace first, which moved
            // its base last.
            let newest = (entry.snapshot, 0);
            bases.entry(entry.workspace.unwrap()).or_insert(newest).1 += 1;
            assert_eq!(known.insert(request, entry.sequence), None, "landed twice");
        }
    }
    assert_eq!(head, snapshot_of("nothing"));
    for (request, sequence) in acknowledged {
        assert_eq!(known.get(*request), Some(sequence), "{request}");
    }
    for (id, expected) in bases {
        let workspace = catalog.workspace(TENANT, &id).await.unwrap().unwrap();
        assert_eq!((workspace.base, workspace.merges), expected);
    }
}

/// Panics unless the first sandbox of every pair is at least at its
/// acknowledged stage and the second one is unchanged.
async fn assert_lives(catalog: &SqliteCatalog, acknowledged: impl Iterator<Item = &String>) {
    let mut furthest: HashMap<&str, usize> = HashMap::new();
    for line in acknowledged {
        let (pair, step) = line.split_once(' ').unwrap();
        let step = LIFE.iter().position(|name| *name == step).unwrap();
        let known = furthest.entry(pair).or_default();
        *known = step.max(*known);
    }
    for (pair, known) in furthest {
        let [one, other] = ["a", "b"].map(|end| sandbox_id(pair, end));
        let one = catalog.sandbox(TENANT, &one).await.unwrap();
        let other = catalog.sandbox(TENANT, &other).await.unwrap();
        let other = other.unwrap_or_else(|| panic!("{pair}-b is lost"));
        assert_eq!(other, sandbox(&other.id));
        let found = one.map_or(LIFE.len() - 1, |one| stage(pair, &one));
        assert!(
            found >= known,
            "{pair} was {} and is {}",
            LIFE[known],
            LIFE[found]
        );
    }
}

fn stage(pair: &str, one: &Sandbox) -> usize {
    let is_running = one.state == SandboxState::Running;
    assert_eq!(one.container.as_deref(), is_running.then_some(pair));
    assert_eq!(one.spec, sandbox(&one.id).spec);
    usize::from(is_running) + usize::from(one.removing)
}

/// Runs the integrity check of SQLite. Also checks that no pair has lost its
/// second sandbox, and that landings have all their versions.
async fn assert_sound(directory: &Path) {
    let options = SqliteConnectOptions::new().filename(directory.join(FILE));
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let checked: String = sqlx::query_scalar("PRAGMA integrity_check")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(checked, "ok");
    let half = "SELECT count(*) FROM sandboxes one WHERE id LIKE '%-a' AND NOT EXISTS \
                (SELECT 1 FROM sandboxes WHERE id = substr(one.id, 1, length(one.id) - 1) || 'b')";
    let half: i64 = sqlx::query_scalar(half).fetch_one(&pool).await.unwrap();
    assert_eq!(half, 0, "pairs of which half is missing");
    let strays = sqlx::query("PRAGMA foreign_key_check");
    let strays = strays.fetch_all(&pool).await.unwrap();
    assert_eq!(strays.len(), 0, "versions without a landing, for instance");
    let bare = "SELECT count(*) FROM landings WHERE ? <> (SELECT count(*) FROM versions \
                WHERE versions.project = landings.project \
                AND versions.sequence = landings.sequence)";
    let bare: i64 = sqlx::query_scalar(bare)
        .bind(CHANGES as i64)
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(bare, 0, "landings without all of their versions");
    pool.close().await;
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    const NAME: &str = "nothing_acknowledged_is_lost_when_the_process_is_killed";
    if let Some(victim) = Victim::here() {
        return work_without_end(victim);
    }
    let directory = TempDir::new().unwrap();
    let kills = Kills::new(NAME, directory.path(), long::rounds(100, 5));
    // The first process may die while it creates the catalog; the next one
    // continues.
    kills.longest_life(Duration::from_millis(700)).run(|done| {
        let acknowledged = if done.is_last {
            done.all()
        } else {
            done.of_the_last()
        };
        runtime().block_on(verify(directory.path(), acknowledged));
    });
}

#[test]
fn nothing_acknowledged_is_lost_when_power_fails() {
    const NAME: &str = "nothing_acknowledged_is_lost_when_power_fails";
    if let Some(victim) = Victim::here() {
        return work_without_end(victim);
    }
    if !disk::in_own_namespace(NAME) {
        return;
    }
    let directory = TempDir::new().unwrap();
    let mut random = SmallRng::seed_from_u64(long::seed());
    let disk = Disk::make(directory.path(), "disk", DISK_BYTES);
    let mut victim = Running::start(NAME, disk.path(), random.random());
    let mut acknowledged = Vec::new();
    let rounds = long::rounds(20, 3);
    for _ in 0..rounds {
        victim.work_for_a_moment(&mut random, Duration::from_millis(300));
        acknowledged.extend(victim.acknowledged());
        acknowledged.push(victim.wait_for_next());
        victim.pause();
        // Changes that were acknowledged during the pause are on the disk too.
        acknowledged.extend(victim.acknowledged());
        let after = disk.lose_power("after");
        runtime().block_on(verify(after.path(), &acknowledged));
        after.discard();
        // The process is resumed only now, so that it does not fill the disk
        // meanwhile.
        victim.resume();
    }
    long::note(format_args!(
        "{rounds} power losses, {} acknowledgements",
        acknowledged.len()
    ));
    victim.kill();
}
