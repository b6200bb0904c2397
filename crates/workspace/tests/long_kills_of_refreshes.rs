//! Tests of `kill -9` at random moments while workspaces are refreshed and
//! read-only workspaces follow snapshots, and of a thousand read-only
//! workspaces at once.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "tests measure time")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use elevo_core::{TenantId, Timestamp};
use elevo_engine::{CommitInfo, Expected, ImportOptions, Progress, Repository, import};
use elevo_objects::SnapshotId;
use elevo_store_local::LocalStore;
use elevo_testkit::crash::{Acknowledged, Kills, Victim};
use elevo_testkit::{disk, long};
use elevo_workspace::{Error, NeverFreeze, Options, ProviderKind, WorkspaceId, Workspaces};
use futures::executor::block_on;

/// Number of snapshots to follow. All files of a snapshot hold its number.
const HEADS: usize = 8;
const FILES: usize = 60;

fn info(reference: Option<String>) -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: "victim".into(),
        message: String::new(),
        created: Timestamp::new(0, 0).unwrap(),
        labels: BTreeMap::new(),
        reference: reference.map(|name| (name, Expected::Any)),
    }
}

fn repository(directory: &Path) -> Repository {
    let path = directory.join("store");
    let options = elevo_store_local::Options::default();
    let store = LocalStore::open(&path, &options).or_else(|_| LocalStore::create(&path, &options));
    Repository::new(Arc::new(store.unwrap()), TenantId::LOCAL, 1 << 20)
}

fn open(directory: &Path, provider: ProviderKind, is_pooled: bool) -> (Workspaces, Repository) {
    let options = Options {
        threads: 2,
        provider: Some(provider),
        spare_layers: 1 << 20,
        pool: is_pooled.then_some(1 << 30),
        owner: None,
        lazy: None,
        hidden_mounts: false,
        node: None,
    };
    let (root, repository) = (directory.join("workspaces"), repository(directory));
    let workspaces = Workspaces::open(&root, repository.clone(), &options);
    (workspaces.unwrap(), repository)
}

fn head(repository: &Repository, number: usize) -> SnapshotId {
    let name = format!("head-{number}");
    let head = block_on(repository.store().reference(TenantId::LOCAL, &name));
    head.unwrap().unwrap()
}

/// Stores `HEADS` snapshots, each with its number in all files.
fn prepare(directory: &Path) {
    let repository = repository(directory);
    let files = directory.join("heads");
    let mut parents = Vec::new();
    for number in 0..HEADS {
        fs::create_dir_all(files.join("shared")).unwrap();
        for file in 0..FILES {
            let content = format!("{number}\n").repeat(500);
            fs::write(files.join(format!("shared/{file}")), content).unwrap();
        }
        let options = ImportOptions {
            threads: 2,
            leave_out: Vec::new(),
            ignoring: None,
        };
        let imported = import(&repository, &files, &options, &Progress::new()).unwrap();
        let info = CommitInfo {
            parents,
            ..info(Some(format!("head-{number}")))
        };
        parents = vec![block_on(imported.commit(&repository, info)).unwrap()];
    }
}

fn id(name: &str) -> WorkspaceId {
    name.parse().unwrap()
}

fn made(workspaces: &Workspaces, repository: &Repository, name: &str, read_only: bool) {
    if workspaces.get(&id(name)).is_err() {
        let (base, now) = (head(repository, 0), Timestamp::new(0, 0).unwrap());
        let created = match read_only {
            true => workspaces.create_read_only(&id(name), base, now, None, &Progress::new()),
            false => workspaces.create(&id(name), base, now, None, &Progress::new()),
        };
        created.unwrap();
    }
}

/// Returns a snapshot with the agent's files of `taken` and the shared files of
/// a head.
fn merged(repository: &Repository, directory: &Path, taken: SnapshotId, to: usize) -> SnapshotId {
    let scratch = directory.join("scratch");
    let _ = fs::remove_dir_all(&scratch);
    let options = elevo_engine::CheckoutOptions {
        threads: 2,
        leave_out: Vec::new(),
        ignoring: None,
        force: false,
        clone_source: None,
        owner: None,
    };
    let present = elevo_engine::ExistingContent::Unknown;
    let progress = Progress::new();
    let checkout = |id, into: &Path| {
        let snapshot = block_on(repository.snapshot(id)).unwrap();
        elevo_engine::checkout(repository, &snapshot, into, &present, &options, &progress).unwrap();
    };
    checkout(taken, &scratch);
    fs::remove_dir_all(scratch.join("shared")).unwrap();
    let of_head = directory.join("scratch-head");
    let _ = fs::remove_dir_all(&of_head);
    checkout(head(repository, to), &of_head);
    fs::rename(of_head.join("shared"), scratch.join("shared")).unwrap();
    let options = ImportOptions {
        threads: 2,
        leave_out: Vec::new(),
        ignoring: None,
    };
    let imported = import(repository, &scratch, &options, &progress).unwrap();
    let info = CommitInfo {
        parents: vec![taken],
        ..info(None)
    };
    block_on(imported.commit(repository, info)).unwrap()
}

/// Writes to a workspace, refreshes it, lets a read-only workspace follow a
/// head, and acknowledges each step.
fn work_for_ever(victim: &Victim, provider: ProviderKind, is_pooled: bool) -> ! {
    let (workspaces, repository) = open(victim.directory(), provider, is_pooled);
    made(&workspaces, &repository, "writer", false);
    made(&workspaces, &repository, "reader", true);
    let files = workspaces.path(&id("writer")).unwrap();
    for round in victim.seed().. {
        let to = round as usize % HEADS;
        victim.acknowledge(format_args!("writing {round}"));
        fs::write(files.join("mine"), format!("{round}")).unwrap();
        victim.acknowledge(format_args!("wrote {round}"));
        let decide =
            |taken| Ok::<_, Error>(Some(merged(&repository, victim.directory(), taken, to)));
        let refreshed = workspaces.refresh(
            &id("writer"),
            info(None),
            &NeverFreeze,
            &Progress::new(),
            decide,
        );
        refreshed.unwrap();
        victim.acknowledge(format_args!("refreshed {to}"));
        victim.acknowledge(format_args!("following {to}"));
        let progress = Progress::new();
        let head = head(&repository, to);
        workspaces.follow(&id("reader"), head, &progress).unwrap();
        victim.acknowledge(format_args!("followed {to}"));
        if round % 5 == 0 {
            workspaces.tidy().unwrap();
        }
    }
    unreachable!("there is always a next")
}

/// Returns the number that all shared files hold, if they hold the same.
fn number(files: &Path) -> Option<String> {
    let read = |file| fs::read_to_string(files.join(format!("shared/{file}"))).ok();
    let all: Option<Vec<_>> = (0..FILES).map(read).collect();
    let all = all?;
    let is_same = all.iter().all(|text| *text == all[0]);
    is_same.then(|| all[0].lines().next().unwrap_or_default().to_owned())
}

fn verify(directory: &Path, provider: ProviderKind, is_pooled: bool, done: &Acknowledged) {
    let (workspaces, _) = open(directory, provider, is_pooled);
    let last = |what: &str| {
        let mut lines = done.all().iter().rev();
        lines.find_map(|line| line.strip_prefix(what).map(ToOwned::to_owned))
    };
    if let Some(wrote) = last("wrote ")
        && let Ok(record) = workspaces.get(&id("writer"))
    {
        let files = workspaces.path(&id("writer")).unwrap();
        let mine = fs::read_to_string(files.join("mine")).unwrap();
        let writing = last("writing ").unwrap();
        assert!(mine == wrote || mine == writing || mine.is_empty());
        if record.unfinished.is_none() {
            assert!(number(&files).is_some(), "the files are of one snapshot");
        }
        // After an interrupted refresh, the snapshot that was taken before it
        // and its target can be restored, and both have the agent's file.
        let to = record.unfinished.unwrap_or(record.base);
        let restored = |to| {
            let progress = Progress::new();
            workspaces
                .restore(&id("writer"), to, &NeverFreeze, &progress)
                .unwrap();
            assert!(number(&files).is_some());
            assert_eq!(workspaces.get(&id("writer")).unwrap().unfinished, None);
            fs::read_to_string(files.join("mine")).unwrap()
        };
        if record.unfinished.is_some() {
            assert_eq!(restored(record.base), mine);
            assert_eq!(restored(to), mine);
        }
    }
    if let Some(following) = last("following ")
        && workspaces.get(&id("reader")).is_ok()
    {
        let files = workspaces.path(&id("reader")).unwrap();
        let shown = number(&files).expect("all files of one snapshot");
        let followed = last("followed ").unwrap_or_else(|| "0".into());
        assert!(
            shown == following || shown == followed,
            "{shown} {following} {followed}"
        );
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let read = directory.join("workspaces/read/reader");
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let count = points.filter(|point| Path::new(point) == read).count();
    assert!(count <= 1, "{count} mounts of one reader");
    let left = fs::read_dir(directory.join("workspaces/trash")).unwrap();
    assert_eq!(left.count(), 0);
}

fn kill(test: &str, provider: ProviderKind, is_pooled: bool) {
    if let Some(victim) = Victim::here() {
        work_for_ever(&victim, provider, is_pooled);
    }
    if !disk::in_own_namespace(test) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path());
    Kills::new(test, directory.path(), long::rounds(200, 10))
        .longest_life(Duration::from_millis(1500))
        .run(|done| verify(directory.path(), provider, is_pooled, done));
    let (workspaces, _) = open(directory.path(), provider, is_pooled);
    for record in workspaces.list().unwrap() {
        workspaces.remove(&record.id).unwrap();
    }
}

#[test]
fn overlays_survive_kills_during_a_refresh() {
    kill(
        "overlays_survive_kills_during_a_refresh",
        ProviderKind::Overlay,
        false,
    );
}

#[test]
fn pools_survive_kills_during_a_refresh() {
    kill(
        "pools_survive_kills_during_a_refresh",
        ProviderKind::Overlay,
        true,
    );
}

#[test]
fn copies_survive_kills_during_a_refresh() {
    kill(
        "copies_survive_kills_during_a_refresh",
        ProviderKind::Copy,
        false,
    );
}

#[test]
fn a_thousand_read_only_workspaces_follow_one_head() {
    if !disk::in_own_namespace("a_thousand_read_only_workspaces_follow_one_head") {
        return;
    }
    let count = long::rounds(1000, 100);
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path());
    let (workspaces, repository) = open(directory.path(), ProviderKind::Overlay, false);
    let name = |number| format!("reader-{number}");
    let timed = |work: &dyn Fn(u32)| -> Vec<Duration> {
        let mut took: Vec<_> = (0..count)
            .map(|number| {
                let began = Instant::now();
                work(number);
                began.elapsed()
            })
            .collect();
        took.sort();
        took
    };
    let created = timed(&|number| made(&workspaces, &repository, &name(number), true));
    let mut followed = Vec::new();
    for to in 1..3 {
        let head = head(&repository, to);
        followed.extend(timed(&|number| {
            let progress = Progress::new();
            workspaces
                .follow(&id(&name(number)), head, &progress)
                .unwrap();
        }));
        for number in [0, count / 2, count - 1] {
            let files = workspaces.path(&id(&name(number))).unwrap();
            assert_eq!(self::number(&files), Some(to.to_string()));
        }
    }
    followed.sort();
    let began = Instant::now();
    workspaces.tidy().unwrap();
    let tidied = began.elapsed();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let root = directory.path().join("workspaces");
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mounts = points
        .filter(|point| Path::new(point).starts_with(&root))
        .count();
    let line = |took: &[Duration]| {
        let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
        format!("p50 {:?}, p99 {:?}, at most {:?}", at(50), at(99), at(100))
    };
    long::note(format_args!(
        "{count} readers: create {}; follow {}; tidy {tidied:?}; {mounts} mounts",
        line(&created),
        line(&followed),
    ));
    // One mount for each reader, one for the view, and two that all readers
    // share.
    assert_eq!(mounts, count as usize + 3);
}
