//! Garbage collection in a large store, with concurrent commits.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use elevo_core::{Name, TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, Commit, CommitInfo, Expected, GcOptions, GcProgress, GcReport, GcScope, Object,
    ReferenceUpdate, Repository, StateTree, Store, collect_garbage,
};
use elevo_objects::{
    Content, DirItem, Entry, Kind, Mode, ObjectKey, Snapshot, SnapshotId, Tree, TreeBuilder,
};
use elevo_store_local::{LocalStore, Options};
use futures::executor::block_on;

use super::fixture::Bench;
use super::short;
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const TENANT: TenantId = TenantId::LOCAL;
/// Files in a directory.
const FILES: usize = 1000;
/// How long commits are counted while no collection runs.
const ALONE: Duration = Duration::from_secs(10);
const MEBIBYTES: f64 = 1024.0;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let objects = bench.sizes.collected;
    let path = bench.fresh("gc");
    say(&format!("making a store of {objects} objects"));
    let store = Arc::new(LocalStore::create(&path, &Options::default())?);
    let directories = objects / 2 / (FILES + 1);
    let live = fill(&*store, directories, 1)?;
    name(&*store, "live", live)?;
    fill(&*store, directories, 2)?;
    let repository = Repository::new(store, TENANT, 64 << 20);
    rustix::fs::sync();

    say("committing alone");
    let alone = commits(&repository, live, "alone", || thread::sleep(ALONE))?;
    let idle = memory()?;
    say("collecting");
    let peak = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let mut report = None;
    let mut first = 0.0;
    let beside = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                peak.fetch_max(memory().unwrap_or(0), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let rate = commits(&repository, live, "beside", || {
            let began = Instant::now();
            report = Some(collect(&repository, GcScope::Full));
            first = began.elapsed().as_secs_f64();
        });
        is_over.store(true, Ordering::Relaxed);
        rate
    })?;
    let report = report.context("it ran")??;
    say(&format!("{report:?} in {first:.1} s"));
    let dead = (objects / 2) as u64;
    // The collection also removes objects that earlier commits left, so only a lower bound is
    // checked.
    ensure!(report.objects_removed > dead * 99 / 100, "half of it goes");

    // The young collection does not remove objects that the concurrent commits left.
    let began = Instant::now();
    let between = collect(&repository, GcScope::Young)?;
    let seconds = began.elapsed().as_secs_f64();
    say(&format!("{between:?} in {seconds:.3} s"));
    let tree = block_on(StateTree::open(&repository, live))?;
    commit(&tree, "second", u64::MAX)?;
    let began = Instant::now();
    let young = collect(&repository, GcScope::Young)?;
    let second = began.elapsed().as_secs_f64();
    say(&format!("{young:?} in {second:.3} s"));
    ensure!(young.scope == GcScope::Young, "a young one");

    let above = peak.load(Ordering::Relaxed).saturating_sub(idle);
    let count = short(objects);
    let row = |name: String, unit, ours: f64, peer: Option<(&'static str, f64)>, bar| Row {
        name,
        unit,
        ours: Samples::of(ours).figure(),
        peer: peer.map(|(name, value)| (name, Samples::of(value).figure())),
        bar,
    };
    Ok(vec![
        row(
            format!("memory above idle to collect half of {count} objects"),
            Unit::Kibibytes,
            above as f64,
            None,
            Some(Bar::AtMost(256.0 * MEBIBYTES)),
        ),
        row(
            format!("a commit while {count} objects are collected"),
            Unit::Milliseconds,
            1.0 / beside,
            Some(("alone", 1.0 / alone)),
            Some(Bar::AtMostTimes(2.0)),
        ),
        row(
            format!("a second collection of {count} objects after one commit"),
            Unit::Seconds,
            second,
            Some(("the first", first)),
            Some(Bar::AtMostTimes(0.05)),
        ),
    ])
}

/// Commits one changed file after another while `work` runs. Returns the commits per second.
fn commits(
    repository: &Repository,
    base: SnapshotId,
    reference: &str,
    work: impl FnOnce(),
) -> Result<f64> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let committing = scope.spawn(|| -> Result<f64> {
            let tree = block_on(StateTree::open(repository, base))?;
            let began = Instant::now();
            let mut count = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                commit(&tree, reference, count)?;
                count += 1;
            }
            Ok(count as f64 / began.elapsed().as_secs_f64())
        });
        work();
        is_over.store(true, Ordering::Relaxed);
        committing
            .join()
            .map_err(|_| anyhow::anyhow!("it panicked"))?
    })
}

fn commit(tree: &StateTree, reference: &str, number: u64) -> Result<()> {
    let at = TreePath::new(format!("d{:05}/f{:04}", number % 50, number % FILES as u64))?;
    let content = Bytes::from(format!("{reference} {number}"));
    block_on(tree.write(&at, content, Attributes::default()))?;
    let info = CommitInfo {
        parents: Vec::new(),
        author: "bench".into(),
        message: String::new(),
        created: Timestamp::new(0, 0).context("a time")?,
        labels: std::collections::BTreeMap::new(),
        reference: Some((reference.into(), Expected::Any)),
    };
    block_on(tree.commit(info))?;
    Ok(())
}

fn collect(repository: &Repository, scope: GcScope) -> Result<GcReport> {
    let options = GcOptions {
        scope,
        dry_run: false,
        keep_recent: None,
    };
    let mut wait = |_| {
        thread::sleep(Duration::from_millis(1));
        true
    };
    let progress = GcProgress::default();
    let mut roots = std::iter::empty();
    let report = collect_garbage(repository, &mut roots, &options, &mut wait, &progress);
    Ok(report?)
}

/// Stores a snapshot of this number of directories, with distinct files.
fn fill(store: &dyn Store, directories: usize, seed: u64) -> Result<SnapshotId> {
    let writer = block_on(store.writing(TENANT))?;
    let mut root = TreeBuilder::<DirItem>::new();
    let mode = Mode::EXECUTABLE;
    for directory in 0..directories {
        let mut files = TreeBuilder::<DirItem>::new();
        let mut objects = Vec::with_capacity(FILES + 10);
        for file in 0..FILES {
            let data = Bytes::from(format!("content {seed} {directory} {file}"));
            let key = Kind::Chunk.key(&data);
            let size = data.len() as u64;
            objects.push(Object { key, data });
            files.push(DirItem {
                name: Name::copy_from(format!("f{file:04}").as_bytes())?,
                entry: Entry::File {
                    mode: Mode::FILE,
                    content: Content::Chunk {
                        hash: key.hash,
                        size,
                    },
                },
            });
        }
        let tree = finish(&mut files, &mut objects)?;
        block_on(store.put(TENANT, &writer, objects))?;
        root.push(DirItem {
            name: Name::copy_from(format!("d{directory:05}").as_bytes())?,
            entry: Entry::Directory { mode, tree },
        });
    }
    let mut objects = Vec::new();
    let tree = finish(&mut root, &mut objects)?;
    let snapshot = Snapshot {
        tree,
        times: None,
        parents: Vec::new(),
        author: "bench".into(),
        message: seed.to_string(),
        created: Timestamp::new(0, 0).context("a time")?,
        labels: std::collections::BTreeMap::new(),
    };
    let commit = Commit {
        objects,
        snapshots: vec![snapshot],
        after: vec![writer.id()],
        ..Commit::default()
    };
    let ids = block_on(store.commit(TENANT, commit))?.ids;
    ids.first().copied().context("one snapshot")
}

fn finish(builder: &mut TreeBuilder<DirItem>, objects: &mut Vec<Object>) -> Result<Tree> {
    let root = builder.finish().context("it is not empty")?;
    for node in builder.take_finished() {
        objects.push(Object {
            key: ObjectKey {
                kind: Kind::Directory,
                hash: node.hash,
            },
            data: node.data,
        });
    }
    Ok(Tree {
        root: Some(root.hash),
        count: root.totals.count,
        bytes: root.totals.bytes,
    })
}

fn name(store: &dyn Store, name: &str, id: SnapshotId) -> Result<()> {
    let references = vec![ReferenceUpdate {
        name: name.into(),
        expected: Expected::Any,
        target: Some(id),
    }];
    let commit = Commit {
        references,
        ..Commit::default()
    };
    block_on(store.commit(TENANT, commit))?;
    Ok(())
}

/// Resident memory of this process in bytes.
fn memory() -> Result<u64> {
    let text = fs::read_to_string(Path::new("/proc/self/smaps_rollup"))?;
    let resident = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kilobytes = resident.and_then(|rest| rest.trim().strip_suffix(" kB"));
    Ok(kilobytes.context("a number")?.trim().parse::<u64>()? * 1024)
}
