//! Creates workspaces of a snapshot whose layers exist.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use elevo_engine::Progress;
use elevo_workspace::Workspaces;
use rustix::mount::{MountFlags, mount};

use super::{LIMIT, POOL, id, now, open, sizes};
use crate::engine::fixture::{Bench, Tree, dice};
use crate::engine::short;
use crate::measure::{Contender, Samples, interleave, timed};
use crate::report::{Bar, Row, Unit};

const ROUNDS: usize = 50;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut first: Option<Samples> = None;
    for files in sizes(&bench.sizes) {
        let tree = bench.tree(files)?;
        let plain = open(bench, &tree, None)?;
        let pooled = open(bench, &tree, Some(POOL))?;
        // The first workspace creates the base layer, with the tree's files.
        let base = make(&plain, &tree, 0, None)?.1;
        make(&pooled, &tree, 0, Some(LIMIT))?;
        let mut bare = Bare::over(&bench.fresh("bare"), &lower(&base)?)?;
        let [mut one, mut other] = [0; 2];
        let contenders: [Contender<'_>; 3] = [
            Box::new(|| {
                one += 1;
                Ok(make(&plain, &tree, one, None)?.0)
            }),
            Box::new(|| {
                other += 1;
                Ok(make(&pooled, &tree, other, Some(LIMIT))?.0)
            }),
            Box::new(|| bare.make()),
        ];
        let [ours, limited, floor] = interleave(ROUNDS, contenders)?;
        let name = short(files);
        rows.push(Row {
            name: format!("create a workspace of {name} files vs mkdir+mount+sync"),
            unit: Unit::Milliseconds,
            ours: ours.figure(),
            peer: Some(("bare", floor.figure())),
            bar: Some(Bar::AtMostTimes(2.0)),
        });
        rows.push(Row {
            name: format!("create a workspace of {name} files with a limit"),
            unit: Unit::Milliseconds,
            ours: limited.figure(),
            peer: None,
            bar: Some(Bar::AtMost(10.0)),
        });
        let variants = new_heads(bench, &tree, &plain)?;
        rows.push(Row {
            name: format!("create a workspace from a new snapshot of {name} files, with its layer"),
            unit: Unit::Milliseconds,
            ours: variants.figure(),
            peer: None,
            bar: Some(Bar::AtMost(5.0)),
        });
        if let Some(first) = first.as_ref().filter(|_| files == bench.sizes.large) {
            rows.push(Row {
                name: format!("create growth from 1k to {name} files"),
                unit: Unit::Milliseconds,
                ours: ours.figure(),
                peer: Some(("1k files", first.figure())),
                bar: Some(Bar::AtMostTimes(1.5)),
            });
        }
        first.get_or_insert(ours);
    }
    Ok(rows)
}

/// Creates a workspace. Returns the time, and its directory.
fn make(
    workspaces: &Workspaces,
    tree: &Tree,
    number: usize,
    limit: Option<u64>,
) -> Result<(f64, PathBuf)> {
    let id = id(number)?;
    timed(|| Ok(workspaces.create(&id, tree.snapshot, now(), limit, &Progress::new())?))
}

/// Times the creation of workspaces from new snapshots, each with ten changed files.
fn new_heads(_: &Bench, tree: &Tree, workspaces: &Workspaces) -> Result<Samples> {
    let mut dice = dice("heads");
    let mut samples = Samples::new();
    for number in 0..20 {
        let head = tree.variant(&mut dice, super::CHANGED)?;
        let id = format!("head-{number}").parse()?;
        let made = timed(|| {
            let progress = Progress::new();
            Ok(workspaces.create(&id, head, now(), None, &progress)?)
        });
        samples.push(made?.0);
    }
    Ok(samples)
}

/// The lower directory of an overlay, as the kernel reports it.
pub(super) fn lower(files: &Path) -> Result<String> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let files = files
        .to_str()
        .context("the path of the workspace is not UTF-8")?;
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(1) == Some(files));
    let options = line.and_then(|line| line.split(' ').nth(3));
    let lower = options.and_then(|options| {
        options
            .split(',')
            .find_map(|option| option.strip_prefix("lowerdir="))
    });
    Ok(lower.context("the workspace is not mounted")?.to_owned())
}

/// Baseline: the least work that the creation of a workspace needs, which is
/// directories, a mount, and one log line synced to disk.
pub(super) struct Bare {
    directory: PathBuf,
    lower: String,
    log: File,
    made: usize,
}

impl Bare {
    pub(super) fn over(directory: &Path, lower: &str) -> Result<Self> {
        fs::create_dir(directory)?;
        Ok(Self {
            directory: directory.into(),
            lower: lower.into(),
            log: File::create(directory.join("log"))?,
            made: 0,
        })
    }

    pub(super) fn make(&mut self) -> Result<f64> {
        let (seconds, ()) = timed(|| {
            self.mount()?;
            writeln!(
                self.log,
                "one more, of about as many bytes as a line of the registry has"
            )?;
            Ok(self.log.sync_data()?)
        })?;
        Ok(seconds)
    }

    /// Creates only the directories and the mount.
    pub(super) fn mount(&mut self) -> Result<()> {
        self.made += 1;
        let place = self.directory.join(self.made.to_string());
        let [upper, work, files] = ["upper", "work", "files"].map(|name| place.join(name));
        for directory in [&place, &upper, &work, &files] {
            fs::create_dir(directory)?;
        }
        let (lower, upper, work) = (&self.lower, upper.display(), work.display());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let options = std::ffi::CString::new(options)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        Ok(mount(
            "overlay",
            files,
            "overlay",
            flags,
            Some(options.as_c_str()),
        )?)
    }
}
