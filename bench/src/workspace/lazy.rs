//! Snapshots that are served by threads of this process instead of written out.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use elevo_engine::{CheckoutOptions, ExistingContent, Owner, Progress, Repository, checkout};
use elevo_objects::{Snapshot, SnapshotId};
use elevo_workspace::{LazyServer, Options, ProviderKind, Workspaces};
use futures::executor::block_on;
use rustix::fs::{Advice, fadvise};

use super::{id, now};
use crate::data::{Dataset, noise};
use crate::engine::fixture::{Bench, create_store, import_all, repository};
use crate::engine::short;
use crate::measure::{Contender, Samples, interleave, timed};
use crate::report::{Bar, Row, Unit};

const ROUNDS: usize = 7;
/// Number of rounds of slow measures.
const FEW_ROUNDS: usize = 3;
/// The measured command reads one file out of this many.
const ONE_IN: usize = 100;
const PIECE: usize = 16 << 20;

#[derive(Debug)]
struct Threads(Repository);

impl LazyServer for Threads {
    fn serve(&self, snapshot: SnapshotId, at: &Path, _: Option<Owner>) -> io::Result<()> {
        let snapshot = block_on(self.0.snapshot(snapshot)).map_err(io::Error::other)?;
        let options = elevo_lazy::Options::new((0, 0), 8);
        let mount = elevo_lazy::mount(&self.0, &snapshot, at, options)?;
        std::thread::spawn(move || mount.join());
        Ok(())
    }
}

/// Creates a workspace in a new directory, with an empty cache. Returns its files.
fn make(
    root: &Path,
    bench: &Bench,
    repository: &Repository,
    snapshot: SnapshotId,
) -> Result<PathBuf> {
    let options = Options {
        threads: bench.threads,
        provider: Some(ProviderKind::Lazy),
        spare_layers: 0,
        pool: None,
        owner: None,
        lazy: Some(Arc::new(Threads(repository.clone()))),
        hidden_mounts: false,
        node: None,
    };
    let workspaces = Workspaces::open(root, repository.clone(), &options)?;
    Ok(workspaces.create(&id(0)?, snapshot, now(), None, &Progress::new())?)
}

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut rows = vec![mount(bench)?];
    rows.extend(tree(bench)?);
    rows.extend(large(bench)?);
    Ok(rows)
}

fn mount(bench: &mut Bench) -> Result<Row> {
    let files = bench.sizes.large;
    let tree = bench.tree(files)?;
    let mut samples = Samples::new();
    for _ in 0..ROUNDS {
        let (repository, root) = (repository(&tree.store), bench.fresh("lazy"));
        let (seconds, entries) = timed(|| {
            let directory = make(&root, bench, &repository, tree.snapshot)?;
            Ok(fs::read_dir(directory)?.count())
        })?;
        ensure!(entries > 0, "nothing is listed");
        samples.push(seconds);
    }
    Ok(Row {
        name: format!("lazy: mount {} files and list the root", short(files)),
        unit: Unit::Milliseconds,
        ours: samples.figure(),
        peer: None,
        bar: Some(Bar::AtMost(100.0)),
    })
}

fn tree(bench: &mut Bench) -> Result<Vec<Row>> {
    let files = bench.sizes.small;
    let tree = bench.tree(files)?;
    let snapshot = tree.snapshot(tree.snapshot)?;
    let (native, root) = (tree.files(), bench.fresh("lazy"));
    let lazy = make(&root, bench, &repository(&tree.store), tree.snapshot)?;
    ensure!(walk(&lazy)? == walk(&native)?, "they differ");
    let contenders: [Contender<'_>; 2] = [
        Box::new(|| Ok(timed(|| walk(&lazy))?.0)),
        Box::new(|| Ok(timed(|| walk(&native))?.0)),
    ];
    let [ours, peer] = interleave(ROUNDS, contenders)?;
    let walked = Row {
        name: format!("lazy: repeated walk of {} files", short(files)),
        unit: Unit::Milliseconds,
        ours: ours.figure(),
        peer: Some(("native", peer.figure())),
        bar: Some(Bar::AtMostTimes(1.3)),
    };
    let names: Vec<_> = (0..files)
        .step_by(ONE_IN)
        .map(|index| tree.layout.path(index))
        .collect();
    let contenders: [Contender<'_>; 2] = [
        Box::new(|| {
            let (repository, root) = (repository(&tree.store), bench.fresh("lazy"));
            let (seconds, ()) = timed(|| {
                let directory = make(&root, bench, &repository, tree.snapshot)?;
                read(&directory, &names)
            })?;
            Ok(seconds)
        }),
        Box::new(|| {
            let (repository, directory) = (repository(&tree.store), bench.fresh("whole"));
            let (seconds, ()) = timed(|| {
                write_out(bench, &repository, &snapshot, &directory)?;
                read(&directory, &names)
            })?;
            Ok(seconds)
        }),
    ];
    let [ours, peer] = interleave(FEW_ROUNDS, contenders)?;
    let part = Row {
        name: format!(
            "lazy: read 1 % of {} files with an empty cache",
            short(files)
        ),
        unit: Unit::Milliseconds,
        ours: ours.figure(),
        peer: Some(("checkout and read", peer.figure())),
        bar: Some(Bar::TimesFaster(10.0)),
    };
    Ok(vec![walked, part])
}

/// Reads a large file in order, the first time and again.
fn large(bench: &mut Bench) -> Result<Vec<Row>> {
    let bytes = bench.sizes.mixed;
    let (source, store_path) = (bench.fresh("large"), bench.fresh("store"));
    fs::create_dir_all(&source)?;
    let native = source.join("file");
    let mut file = File::create(&native)?;
    for piece in 0..bytes.div_ceil(PIECE as u64) {
        let left = (bytes - piece * PIECE as u64).min(PIECE as u64);
        io::copy(&mut &noise(left as usize, "large", piece)[..], &mut file)?;
    }
    file.sync_all()?;
    let store = create_store(&store_path)?;
    let snapshot = import_all(&repository(&store), &source, bench.threads)?;
    let mut samples = [(); 4].map(|()| Samples::new());
    for _ in 0..FEW_ROUNDS {
        forget(&native)?;
        forget(&store_path)?;
        let root = bench.fresh("lazy");
        let lazy = make(&root, bench, &repository(&store), snapshot)?.join("file");
        for (at, path) in [(0, &native), (1, &lazy), (2, &native), (3, &lazy)] {
            let (seconds, read) = timed(|| read_through(path))?;
            ensure!(read == bytes, "{read} bytes were read");
            samples[at].push(seconds);
        }
    }
    let [first, lazy_first, again, lazy_again] = samples;
    let row = |name: &str, ours: Samples, peer: Samples, limit| Row {
        name: format!("lazy: sequential read of {} MiB, {name}", bytes >> 20),
        unit: Unit::Seconds,
        ours: ours.figure(),
        peer: Some(("native", peer.figure())),
        bar: Some(Bar::AtMostTimes(limit)),
    };
    // The bars: the first read is at least half as fast as a native one, and later reads at least
    // nine tenths as fast.
    Ok(vec![
        row("the first time", lazy_first, first, 1.0 / 0.5),
        row("again", lazy_again, again, 1.0 / 0.9),
    ])
}

fn write_out(
    bench: &Bench,
    repository: &Repository,
    snapshot: &Snapshot,
    directory: &Path,
) -> Result<()> {
    let options = CheckoutOptions {
        threads: bench.threads,
        leave_out: Vec::new(),
        ignoring: None,
        force: false,
        clone_source: None,
        owner: None,
    };
    let (present, progress) = (ExistingContent::Unknown, Progress::new());
    checkout(
        repository, snapshot, directory, &present, &options, &progress,
    )?;
    Ok(())
}

/// Reads the metadata of everything, as `git status` does.
fn walk(root: &Path) -> Result<(u64, u64)> {
    let (mut entries, mut bytes) = (0, 0);
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let stat = entry.metadata()?;
            entries += 1;
            if stat.is_dir() {
                open.push(entry.path());
            } else {
                bytes += stat.len();
            }
        }
    }
    Ok((entries, bytes))
}

fn read(directory: &Path, names: &[String]) -> Result<()> {
    for name in names {
        let path = directory.join(name);
        fs::read(&path).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn read_through(path: &Path) -> Result<u64> {
    let (mut file, mut buffer, mut bytes) = (File::open(path)?, vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(bytes),
            read => bytes += read as u64,
        }
    }
}

/// Drops files from the kernel's page cache.
fn forget(path: &Path) -> Result<()> {
    if path.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| forget(&entry?.path()));
    }
    Ok(fadvise(File::open(path)?, 0, None, Advice::DontNeed)?)
}
