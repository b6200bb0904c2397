//! Imports a directory again: unchanged, and after a change of one file that the import has to
//! find.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use elevo_engine::{ImportOptions, NewStatCache, Progress, Repository, import_with_cache};
use elevo_objects::SnapshotId;
use futures::executor::block_on;
use rand::RngExt;

use super::fixture::{Bench, commit_info, create_store, dice, repository};
use super::short;
use crate::data::{Dataset, FileSizes, Layout, noise, write_to_disk};
use crate::measure::{Contender, interleave, timed};
use crate::peers::{Git, walk};
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const ROUNDS: usize = 21;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let files = bench.sizes.small;
    let layout = Layout::new(files, FileSizes::Ordinary);
    let [ours, theirs] = ["again", "again-git"].map(|name| bench.fresh(name));
    say(&format!("making {files} files twice"));
    for directory in [&ours, &theirs] {
        write_to_disk(&layout, directory)?;
    }
    let git = Git::with_commit(&bench.fresh("again-repository"), &theirs, &layout)?;
    let store = create_store(&bench.fresh("again-store"))?;
    let mut again = Again {
        repository: repository(&store),
        directory: ours.clone(),
        cache: bench.fresh("again-stat"),
        threads: bench.threads,
        last: None,
    };
    // The next import reads files again that were written in the last tick of the clock before an
    // import. The first two imports are therefore not measured.
    for _ in 0..2 {
        thread::sleep(Duration::from_millis(50));
        again.import()?;
        git.time_of_status()?;
    }
    rustix::fs::sync();
    let contenders: [Contender<'_>; 3] = [
        Box::new(|| {
            let (seconds, read) = again.import()?;
            ensure!(read == 0, "{read} bytes were read although nothing changed");
            Ok(seconds)
        }),
        Box::new(|| {
            let (seconds, found) = timed(|| Ok(walk(&ours)?))?;
            ensure!(found > 0, "nothing was found");
            Ok(seconds)
        }),
        Box::new(|| git.time_of_status()),
    ];
    let [same, floor, status] = interleave(ROUNDS, contenders)?.map(|samples| samples.figure());
    let mut dice = dice("again");
    let mut change = |directory: &Path| {
        let path = directory.join(layout.path(dice.random_range(0..files)));
        fs::write(path, noise(4096, "again", dice.random()))
    };
    let change = &std::cell::RefCell::new(&mut change);
    let contenders: [Contender<'_>; 2] = [
        Box::new(|| {
            (change.borrow_mut())(&ours)?;
            let (seconds, read) = again.import()?;
            ensure!((4096..=8192).contains(&read), "{read} bytes were read");
            Ok(seconds)
        }),
        Box::new(|| {
            (change.borrow_mut())(&theirs)?;
            git.time_to_commit_all()
        }),
    ];
    let [changed, commit] = interleave(ROUNDS, contenders)?.map(|samples| samples.figure());
    let row = |what: &str, ours, peer, bar| Row {
        name: format!("import again, {what} of {}", short(files)),
        unit: Unit::Milliseconds,
        ours,
        peer: Some(peer),
        bar: Some(bar),
    };
    let untracked = ("git status, untracked cache", status);
    let added = ("git add -A, commit", commit);
    Ok(vec![
        row(
            "0 changed",
            same,
            ("lstat walk", floor),
            Bar::AtMostTimes(1.5),
        ),
        row("0 changed", same, untracked, Bar::AtMostTimes(1.0)),
        row("1 changed", changed, added, Bar::TimesFaster(4.0)),
    ])
}

/// A directory that is imported repeatedly.
struct Again {
    repository: Repository,
    directory: PathBuf,
    cache: PathBuf,
    threads: usize,
    last: Option<SnapshotId>,
}

impl Again {
    /// Imports the directory, and commits a durable snapshot if it differs from the last one.
    /// Returns the time, and the number of bytes read from files.
    fn import(&mut self) -> Result<(f64, u64)> {
        let (repository, progress) = (&self.repository, Progress::new());
        let options = ImportOptions {
            threads: self.threads,
            leave_out: Vec::new(),
            ignoring: None,
        };
        let (seconds, id) = timed(|| {
            let cache = NewStatCache::begin(&self.cache)?;
            let read = import_with_cache(repository, &self.directory, &options, &progress, &cache)?;
            let last = self.last.map(|id| block_on(repository.snapshot(id)));
            let last = last.transpose()?;
            let id = match (self.last, last) {
                (Some(id), Some(last)) if (last.tree, last.times) == (read.tree, read.times) => id,
                _ => block_on(read.commit(repository, commit_info(self.last)))?,
            };
            cache.finish(id)?;
            Ok(id)
        })?;
        self.last = Some(id);
        Ok((seconds, progress.bytes()))
    }
}
