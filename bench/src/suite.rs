//! The parts that all subcommands share: settings, a scratch directory, running the measures, and
//! printing the results.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rustix::fs::statfs;
use tempfile::TempDir;

use crate::peers::{self, Peer};
use crate::report::{Report, Row};

/// The options of every subcommand.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Use a tenth of the data: minutes instead of half an hour
    #[arg(long)]
    pub(crate) quick: bool,
    /// Also write the rows to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also write the table to this file, as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Directory for the data [default: the system's directory for temporary files]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Keep the data after the run
    #[arg(long)]
    pub(crate) keep: bool,
}

/// A group of rows that are measured together, in a context of type `C`.
pub(crate) struct Measure<C> {
    pub(crate) name: &'static str,
    pub(crate) peers: &'static [Peer],
    pub(crate) run: fn(&mut C) -> Result<Vec<Row>>,
}

/// Runs the `measures` that are named in `only`, or all.
pub(crate) fn run<C>(
    measures: &[Measure<C>],
    only: &[String],
    settings: &Settings,
    context: impl FnOnce(&Path) -> Result<C>,
) -> Result<Report> {
    let chosen: Vec<_> = measures
        .iter()
        .filter(|measure| only.is_empty() || only.iter().any(|name| name == measure.name))
        .collect();
    for peer in peers::required(chosen.iter().flat_map(|measure| measure.peers))? {
        say(&peer);
    }
    let scratch = Scratch::make(settings)?;
    let mut context = context(scratch.path())?;
    let mut report = Report {
        part: (chosen.len() < measures.len()).then_some((chosen.len(), measures.len())),
        ..Report::default()
    };
    for measure in chosen {
        say(&format!("measuring {}", measure.name));
        let rows = (measure.run)(&mut context)
            .with_context(|| format!("the measure `{}` failed", measure.name))?;
        rows.iter().for_each(|row| say(&row.to_string()));
        report.rows.extend(rows);
    }
    drop(context);
    drop(scratch);
    publish(&report, settings)?;
    Ok(report)
}

fn publish(report: &Report, settings: &Settings) -> Result<()> {
    let write = |path: &Path, text: String| {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    if let Some(path) = &settings.json {
        write(path, report.json()?)?;
    }
    if let Some(path) = &settings.markdown {
        write(path, report.table() + "\n")?;
    }
    println!("{}", report.table());
    println!("{}", report.closing_line());
    Ok(())
}

/// The directory with all data of a run; deleted when dropped.
struct Scratch {
    directory: TempDir,
    keep: bool,
}

impl Scratch {
    fn make(settings: &Settings) -> Result<Self> {
        let parent = settings.dir.clone().unwrap_or_else(std::env::temp_dir);
        let parent = fs::canonicalize(&parent).with_context(|| {
            format!(
                "cannot find the directory for the data: {}",
                parent.display()
            )
        })?;
        if is_in_memory(&parent)? {
            say(&format!(
                "NOTE: {} is in memory, where syncing costs nothing: choose a disk with --dir",
                parent.display()
            ));
        }
        let directory = tempfile::Builder::new()
            .prefix("elevo-bench-")
            .disable_cleanup(true)
            .tempdir_in(&parent)?;
        say(&format!("data is in {}", directory.path().display()));
        Ok(Self {
            directory,
            keep: settings.keep,
        })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let path = self.path();
        if self.keep {
            say(&format!("data is kept in {}", path.display()));
            return;
        }
        say("deleting the data");
        unmount_below(path);
        if let Err(error) = remove(path) {
            say(&format!("cannot delete {}: {error:#}", path.display()));
        }
    }
}

/// Unmounts everything in a directory, in reverse order.
fn unmount_below(directory: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let ours = points.filter(|point| Path::new(point).starts_with(directory));
    for point in ours.collect::<Vec<_>>().into_iter().rev() {
        let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Deletes with many threads: on a file system that discards freed blocks, a deletion mostly waits.
fn remove(directory: &Path) -> Result<()> {
    const THREADS: usize = 32;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(THREADS)
        .build()?;
    Ok(pool.install(|| remove_below(directory))?)
}

fn remove_below(directory: &Path) -> io::Result<()> {
    let entries: Vec<_> = fs::read_dir(directory)?.collect::<io::Result<_>>()?;
    entries.into_par_iter().try_for_each(|entry| {
        if entry.file_type()?.is_dir() {
            remove_below(&entry.path())
        } else {
            fs::remove_file(entry.path())
        }
    })?;
    fs::remove_dir(directory)
}

fn is_in_memory(directory: &Path) -> Result<bool> {
    const TMPFS: u64 = 0x0102_1994;
    Ok(statfs(directory)?.f_type as u64 == TMPFS)
}

/// Prints a progress line to stderr, with the time since the start.
pub(crate) fn say(what: &str) {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    let seconds = STARTED.get_or_init(Instant::now).elapsed().as_secs();
    eprintln!("[{:2}:{:02}] {what}", seconds / 60, seconds % 60);
}
