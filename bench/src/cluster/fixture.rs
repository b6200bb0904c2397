//! Catalogs in PostgreSQL, with a tenant and a project.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use elevo_catalog::{
    Landing, LandingKind, PathChange, PostgresCatalog, PostgresOptions, Project, Retention, Step,
    Tenant, VersionKind,
};
use elevo_core::{Id, KeyId, ProjectId, TenantId, Timestamp, TreePath};
use elevo_objects::{Content, Entry, Hash, Mode, SnapshotId};
use elevo_testkit::postgres::Database;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

pub(super) const TENANT: TenantId = TenantId::new([0xbe; 16]);

/// Creates a database on the servers of `scripts/services`.
pub(super) fn database() -> Result<Database> {
    for name in ["ELEVO_POSTGRES", "ELEVO_POSTGRES_STANDBY"] {
        std::env::var(name).with_context(|| {
            let services = "scripts/services up postgres";
            format!(
                "{name} is not set; run {services} && eval \"$(scripts/services env postgres)\""
            )
        })?;
    }
    Ok(Database::create())
}

/// Opens a catalog. `direct` is the URL for notifications, if it is another one.
pub(super) async fn open(
    url: &str,
    connections: u32,
    direct: Option<String>,
) -> Result<PostgresCatalog> {
    let options = PostgresOptions {
        connections,
        wait: Duration::from_secs(5),
        direct,
        is_pooled: false,
        ..PostgresOptions::default()
    };
    let opened = PostgresCatalog::open(url, &options).await;
    opened.context("cannot open the catalog")
}

/// Adds the tenant and the project.
pub(super) async fn furnish(catalog: &PostgresCatalog) -> Result<()> {
    let now = now()?;
    let tenant = Tenant::new(TENANT, "bench", now);
    catalog.add_tenant(&tenant).await?;
    let project = Project {
        id: project()?,
        tenant: TENANT,
        name: "bench".into(),
        description: None,
        head: first(),
        sequence: 0,
        policy_version: 0,
        retention: Retention::All,
        created: now,
        updated: now,
        removing: false,
    };
    Ok(catalog.add_project(&project, &json!({})).await?)
}

/// The id of the project.
pub(super) fn project() -> Result<ProjectId> {
    Ok(format!("{}bench", ProjectId::PREFIX).parse()?)
}

/// The head of the new project.
pub(super) fn first() -> SnapshotId {
    snapshot("first")
}

/// A snapshot id that is unique for each name.
pub(super) fn snapshot(name: &str) -> SnapshotId {
    SnapshotId(hash(name))
}

pub(super) fn hash(name: &str) -> Hash {
    Hash::from_bytes(*blake3::hash(name.as_bytes()).as_bytes())
}

/// A landing of one step that modifies `changed` files.
pub(super) fn landing(
    head: SnapshotId,
    next: SnapshotId,
    request: Option<String>,
    changed: usize,
) -> Result<Landing> {
    let changes = (0..changed).map(|file| modified(file, next));
    let step = Step {
        kind: LandingKind::Merge,
        snapshot: next,
        agent: None,
        workspace: None,
        key: format!("{}bench", KeyId::PREFIX).parse()?,
        message: "work".into(),
        request,
        counts: json!({"landed": changed}),
        changes: changes.collect::<Result<_>>()?,
        reviews: Vec::new(),
        opens: Vec::new(),
        base: None,
    };
    Ok(Landing {
        tenant: TENANT,
        project: project()?,
        expected_head: head,
        expected_policy: 0,
        steps: vec![step],
        now: now()?,
    })
}

fn modified(file: usize, next: SnapshotId) -> Result<PathChange> {
    let entry = |hash| Entry::File {
        mode: Mode::FILE,
        content: Content::Chunk { hash, size: 4096 },
    };
    Ok(PathChange {
        path: TreePath::new(format!("src/module-{file}/file-{file}.rs"))?,
        kind: VersionKind::Modified,
        from: None,
        before: Some(entry(hash("before"))),
        after: Some(entry(next.0)),
        files: 1,
        algorithm: "text".into(),
    })
}

pub(super) fn now() -> Result<Timestamp> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = Timestamp::new(now.as_secs() as i64, now.subsec_nanos());
    now.context("the clock shows a time")
}

/// The time of a clock that all processes of the machine share, and that is never set.
pub(super) fn nanoseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
