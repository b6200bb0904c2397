//! Processes that are killed and disks that lose power: whatever the catalog
//! acknowledged is there afterwards, and nothing is half there.
//!
//! `ELEVO_LONG` says how many times (see CONTRIBUTING.md), `ELEVO_SEED` repeats
//! a run.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use elevo_catalog::{
    AddLimits, ApiKey, Catalog, Error, KeyLimits, Sandbox, SandboxChange, SqliteCatalog,
    SqliteOptions, Tenant,
};
use elevo_core::{SandboxState, TenantId, Timestamp};
use elevo_testkit::crash::{Kills, Running, Victim};
use elevo_testkit::disk::{self, Disk};
use elevo_testkit::long;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TENANT: TenantId = TenantId::LOCAL;
const FILE: &str = "catalog.db";
const TASKS: u64 = 4;
const DISK_BYTES: u64 = 1 << 30;
const NOW: Timestamp = Timestamp::new(1_700_000_000, 0).unwrap();

/// What can become of a sandbox here, in this order.
const LIFE: [&str; 4] = ["added", "running", "removing", "removed"];

fn runtime() -> Runtime {
    Runtime::new().unwrap()
}

async fn open(directory: &Path) -> SqliteCatalog {
    let options = SqliteOptions::default();
    SqliteCatalog::open(&directory.join(FILE), &options)
        .await
        .unwrap()
}

/// Adds the tenant and the key, unless an earlier victim has.
async fn furnish(catalog: &SqliteCatalog) {
    let tenant = Tenant {
        id: TENANT,
        name: "local".into(),
        created: NOW,
    };
    let key = ApiKey {
        id: "key".into(),
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
    ] {
        assert!(matches!(added, Ok(()) | Err(Error::Exists { .. })));
    }
}

fn sandbox(id: &str) -> Sandbox {
    Sandbox {
        id: id.into(),
        tenant: TENANT,
        agent: None,
        key: "key".into(),
        name: None,
        state: SandboxState::Starting,
        reason: None,
        template: "base".into(),
        container: None,
        workspace: id.into(),
        token_hash: [2; 32],
        created: NOW,
        expires: NOW,
        updated: NOW,
        removing: false,
        keep_workspace: false,
        // More than a page, so that a row is several writes.
        spec: Value::from(id.repeat(400)),
    }
}

/// A pair of sandboxes lives its life, acknowledged step by step.
async fn live(catalog: &SqliteCatalog, victim: &Victim, pair: &str, steps: usize) {
    let ids = [format!("{pair}-a"), format!("{pair}-b")];
    let both = ids.each_ref().map(|id| sandbox(id));
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
        catalog.change_sandbox(&ids[0], change, NOW).await.unwrap();
        victim.acknowledge(format_args!("{pair} {step}"));
    }
    if steps == 3 {
        catalog.remove_sandbox(&ids[0]).await.unwrap();
        victim.acknowledge(format_args!("{pair} removed"));
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
                for n in 0.. {
                    let pair = format!("{}-{task}-{n}", victim.seed());
                    live(&catalog, &victim, &pair, n % 4).await;
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Panics unless every pair is at least as far as was acknowledged, and whole.
async fn verify(directory: &Path, acknowledged: &[String]) {
    let catalog = open(directory).await;
    let mut furthest: HashMap<&str, usize> = HashMap::new();
    for line in acknowledged {
        let (pair, step) = line.split_once(' ').unwrap();
        let step = LIFE.iter().position(|name| *name == step).unwrap();
        let known = furthest.entry(pair).or_default();
        *known = step.max(*known);
    }
    for (pair, known) in furthest {
        let [one, other] = ["a", "b"].map(|end| format!("{pair}-{end}"));
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
    catalog.close().await;
    assert_sound(directory).await;
}

fn stage(pair: &str, one: &Sandbox) -> usize {
    let is_running = one.state == SandboxState::Running;
    assert_eq!(one.container.as_deref(), is_running.then_some(pair));
    assert_eq!(one.spec, sandbox(&one.id).spec);
    usize::from(is_running) + usize::from(one.removing)
}

/// What SQLite finds, and pairs of which half is missing.
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
    // The first may die while it makes the catalog; the next goes on from there.
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
        thread::sleep(random.random_range(Duration::ZERO..Duration::from_millis(300)));
        acknowledged.extend(victim.acknowledged());
        acknowledged.push(victim.wait_for_next());
        victim.pause();
        // What was acknowledged while it was being paused is on the disk too.
        acknowledged.extend(victim.acknowledged());
        let after = disk.lose_power("after");
        runtime().block_on(verify(after.path(), &acknowledged));
        after.discard();
        // Only now: while it waits, it does not fill the disk.
        victim.resume();
    }
    long::note(format_args!(
        "{rounds} power losses, {} acknowledgements",
        acknowledged.len()
    ));
    victim.kill();
}
