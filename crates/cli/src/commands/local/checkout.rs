use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use elevo_engine::{
    CheckoutOptions, CheckoutReport, CloneSource, ExistingContent, Progress, Repository, checkout,
};
use elevo_merge::IgnoreFiles;
use elevo_objects::{Snapshot, SnapshotId};
use serde_json::json;

use crate::errors::{DirectoryProblem, FileProblem, LocalProblem};
use crate::local::changed_files::ChangedFiles;
use crate::local::checkout_record::{CheckoutRecord, CheckoutState, DirectoryLock};
use crate::local::layout::RESERVED;
use crate::local::read_directory;
use crate::local::session::Session;
use crate::local::wait::{left_out, wait};
use crate::output::format::{self, path_text};
use crate::output::progress::{self, Watch};

/// Check out a snapshot into a directory.
#[derive(Debug, Args)]
#[command(after_help = "\
`.elevo/checkout` records the snapshot in the directory, so that the next
checkout writes only the differences. Files that you changed and that are the
same in both snapshots stay as they are, and are counted. Unsaved changes are
not lost: if you changed a path that the checkout would write or remove, it
changes nothing at all, unless --force is given.

Examples:
  elevo checkout v1 ../copy        create a copy of v1
  elevo checkout head~1            this directory, one commit back
  elevo checkout v2 --check        check all files first
  elevo checkout v1 fast --seed .  share data with this directory, if the
                                         file system can")]
pub(crate) struct Checkout {
    /// The snapshot
    #[arg(value_name = "REV")]
    revision: String,

    /// The directory; by default the working directory
    directory: Option<PathBuf>,

    /// Overwrite and remove changed files
    #[arg(short, long)]
    force: bool,

    /// Check all files, not only those that differ, and stop if any was changed
    #[arg(long)]
    check: bool,

    /// Unchanged directory of another checkout to share data with
    #[arg(long, value_name = "DIRECTORY")]
    seed: Option<PathBuf>,
}

pub(crate) fn run(session: &mut Session, args: Checkout) -> anyhow::Result<()> {
    let given = args.directory.as_deref().map(|path| session.path(path));
    let given = given.map(|path| path.canonicalize().unwrap_or(path));
    let place = session.place(given.as_deref())?;
    let view = session.view_of(&place)?;
    let (id, snapshot) = view.resolve(&args.revision)?;
    let directory = match &given {
        Some(directory) => make(directory)?,
        None => make(place.working()?)?,
    };
    read_directory::check_apart(&place.store, &directory)?;
    let seed = match &args.seed {
        Some(path) => Some(seed(session, &view.repository, path)?),
        None => None,
    };
    let options = CheckoutOptions {
        threads: session.threads(),
        leave_out: left_out(),
        ignoring: Some(Arc::new(IgnoreFiles::default())),
        force: args.force,
        clone_source: seed,
        owner: None,
    };
    let job = Job {
        session,
        repository: &view.repository,
        directory: &directory,
        store: &place.store,
        id,
        snapshot: &snapshot,
    };
    let (report, changed) = job.run(&options, args.check)?;
    print(session, id, &directory, report, &changed)
}

/// Creates the directory if it does not exist, and returns its full path.
fn make(path: &Path) -> Result<PathBuf, LocalProblem> {
    let failed = |source| FileProblem::Io {
        action: "create",
        path: path.into(),
        source,
    };
    if path.exists() && !path.is_dir() {
        return Err(DirectoryProblem::NotADirectory(path.into()).into());
    }
    fs::create_dir_all(path).map_err(failed)?;
    Ok(path.canonicalize().map_err(failed)?)
}

/// Returns the directory and its snapshot to clone files from.
fn seed(session: &Session, repository: &Repository, path: &Path) -> anyhow::Result<CloneSource> {
    let directory = session.directory(path)?;
    let record = CheckoutRecord::read(&directory).filter(CheckoutRecord::is_of_this_boot);
    let id = record.and_then(|record| record.snapshot());
    match id {
        Some(id) => {
            let snapshot = wait(repository.snapshot(id))?;
            Ok(CloneSource {
                directory,
                snapshot,
            })
        }
        None => Err(DirectoryProblem::NoSeed(directory).into()),
    }
}

/// Knowledge about the directory at the start of a checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Nothing is known: the content of every file has to be compared.
    Unknown,
    /// The directory has this snapshot. Paths that are equal in this snapshot
    /// and the new one need not be checked.
    Recorded(SnapshotId),
    /// The directory should have this snapshot, but every path has to be
    /// checked.
    Checked(SnapshotId),
}

impl Start {
    fn new(record: Option<&CheckoutRecord>, to: SnapshotId, check: bool) -> Self {
        let Some(record) = record else {
            return Self::Unknown;
        };
        let fresh = record.is_of_this_boot();
        match record.held {
            CheckoutState::Snapshot(id) if fresh && !check => Self::Recorded(id),
            CheckoutState::Snapshot(id) => Self::Checked(id),
            // Each path is as in one of the two snapshots, so an interrupted
            // checkout can be completed, or undone by the opposite one.
            CheckoutState::Changing {
                from: Some(from),
                to: other,
            } if fresh && to == other => Self::Recorded(from),
            CheckoutState::Changing {
                from: Some(from),
                to: other,
            } if fresh && to == from => Self::Recorded(other),
            CheckoutState::Changing { .. } => Self::Unknown,
        }
    }

    fn snapshot(self) -> Option<SnapshotId> {
        match self {
            Self::Unknown => None,
            Self::Recorded(id) | Self::Checked(id) => Some(id),
        }
    }
}

struct Job<'a> {
    session: &'a Session,
    repository: &'a Repository,
    directory: &'a Path,
    store: &'a Path,
    id: SnapshotId,
    snapshot: &'a Snapshot,
}

impl Job<'_> {
    /// Checks the snapshot out into the directory, and writes the record of the
    /// directory before and after. Returns a report, and the files that differ
    /// from the snapshot.
    fn run(
        &self,
        options: &CheckoutOptions,
        check: bool,
    ) -> anyhow::Result<(CheckoutReport, ChangedFiles)> {
        let _lock = DirectoryLock::take(self.directory)?;
        let was_empty = is_empty(self.directory);
        let before = CheckoutRecord::read(self.directory);
        let (start, present) = self.present(before.as_ref(), check)?;
        let to = self.id;
        let from = start.snapshot();
        self.record(CheckoutState::Changing { from, to })?;
        let progress = Progress::new();
        let watch = Watch {
            doing: "checking out",
            things: "entries",
            total: was_empty.then_some(self.snapshot.tree.count),
            counts: || (progress.entries(), progress.bytes()),
        };
        let result = progress::watch(self.session.hides_progress(), watch, || {
            let directory = self.directory;
            let repository = self.repository;
            checkout(
                repository,
                self.snapshot,
                directory,
                &present,
                options,
                &progress,
            )
        });
        match result {
            Ok(report) => {
                self.record(CheckoutState::Snapshot(to))?;
                // In all other cases the checkout has checked or written every
                // file.
                let looked_at_some = matches!(present, ExistingContent::Recorded(_)) && !was_empty;
                let changed = match looked_at_some {
                    true => self.changed()?,
                    false => ChangedFiles::default(),
                };
                Ok((report, changed))
            }
            Err(source) if progress.has_changed() => {
                let directory = self.directory.into();
                Err(DirectoryProblem::Stopped {
                    directory,
                    to,
                    source,
                }
                .into())
            }
            Err(error) => {
                self.put_back(before.as_ref())?;
                Err(self.explain(error, before.as_ref()))
            }
        }
    }

    /// The files that differ from the snapshot.
    fn changed(&self) -> anyhow::Result<ChangedFiles> {
        let (session, repository) = (self.session, self.repository);
        ChangedFiles::find(
            session,
            repository,
            self.store,
            self.directory,
            self.snapshot,
        )
    }

    /// Returns what the engine may assume about the directory.
    fn present(
        &self,
        record: Option<&CheckoutRecord>,
        check: bool,
    ) -> anyhow::Result<(Start, ExistingContent)> {
        let start = Start::new(record, self.id, check);
        let snapshot = match start.snapshot() {
            Some(id) => self.find(id)?,
            None => None,
        };
        Ok(match (start, snapshot) {
            (Start::Recorded(_), Some(snapshot)) => (start, ExistingContent::Recorded(snapshot)),
            (Start::Checked(_), Some(snapshot)) => (start, ExistingContent::Checked(snapshot)),
            // The record may name a snapshot of another store.
            _ => (Start::Unknown, ExistingContent::Unknown),
        })
    }

    fn find(&self, id: SnapshotId) -> anyhow::Result<Option<Snapshot>> {
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let found = wait(store.snapshots(tenant, &[id]))?;
        Ok(found.into_iter().next().flatten())
    }

    fn record(&self, held: CheckoutState) -> Result<(), FileProblem> {
        CheckoutRecord::new(self.store, held).write(self.directory)
    }

    fn put_back(&self, record: Option<&CheckoutRecord>) -> Result<(), FileProblem> {
        match record {
            Some(record) => record.write(self.directory),
            None => CheckoutRecord::remove(self.directory),
        }
    }

    fn explain(
        &self,
        error: elevo_engine::Error,
        before: Option<&CheckoutRecord>,
    ) -> anyhow::Error {
        let held = before.map(|record| record.held);
        if let (elevo_engine::Error::InTheWay { .. }, Some(CheckoutState::Changing { to, .. })) =
            (&error, held)
        {
            return anyhow::Error::new(DirectoryProblem::Interrupted {
                directory: self.directory.into(),
                to,
                source: Some(error),
            });
        }
        let (what, directory) = (format::short(self.id), self.directory.display());
        anyhow::Error::new(error).context(format!("cannot check {what} out into {directory}"))
    }
}

/// Whether a directory is empty, apart from `.elevo`.
fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|entries| {
        let mut names = entries.flatten().map(|entry| entry.file_name());
        names.all(|name| name == RESERVED)
    })
}

fn print(
    session: &mut Session,
    id: SnapshotId,
    directory: &Path,
    report: CheckoutReport,
    changed: &ChangedFiles,
) -> anyhow::Result<()> {
    if session.output.is_json() {
        session.output.value(&json!({
            "snapshot": id.to_string(),
            "directory": directory.to_string_lossy(),
            "written": report.written,
            "removed": report.removed,
            "bytes": report.bytes,
            "cloned": report.cloned,
            "kept": report.kept,
            "changed": changed.count,
        }))?;
        return Ok(());
    }
    let mut done = format!("{} written", format::totals(report.written, report.bytes));
    if report.removed > 0 {
        done += &format!(", {}", format::count(report.removed, "removed", "removed"));
    }
    if report.cloned > 0 {
        done += &format!(", {}", format::count(report.cloned, "cloned", "cloned"));
    }
    if changed.count > 0 {
        let kept = format::count(changed.count, "changed file kept", "changed files kept");
        done += &format!(", {kept}");
    }
    let directory = directory.display();
    let line = format!("{} is in {directory}: {done}", format::short(id));
    session.confirm(&line)?;
    if changed.count > 0 {
        let names = changed.first.iter();
        let names: Vec<_> = names.map(|path| path_text(path.as_bytes())).collect();
        let rest = changed.count - names.len() as u64;
        let names = match rest {
            0 => names.join(", "),
            _ => format!("{} and {rest} more", names.join(", ")),
        };
        session.note(&format!("different from {}: {names}", format::short(id)));
    }
    if report.kept > 0 {
        let kept = format::count(report.kept, "directory stays", "directories stay");
        session.note(&format!("{kept}, because of files that are in no snapshot"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use elevo_objects::Hash;

    use super::*;

    const A: SnapshotId = SnapshotId(Hash::from_bytes([1; 32]));
    const B: SnapshotId = SnapshotId(Hash::from_bytes([2; 32]));
    const C: SnapshotId = SnapshotId(Hash::from_bytes([3; 32]));

    fn start(held: CheckoutState, to: SnapshotId) -> Start {
        let record = CheckoutRecord::new(Path::new("/store"), held);
        Start::new(Some(&record), to, false)
    }

    #[test]
    fn a_record_is_trusted_unless_a_check_is_requested() {
        let record = CheckoutRecord::new(Path::new("/store"), CheckoutState::Snapshot(A));
        assert_eq!(Start::new(Some(&record), B, false), Start::Recorded(A));
        assert_eq!(Start::new(Some(&record), B, true), Start::Checked(A));
        assert_eq!(Start::new(None, B, false), Start::Unknown);
    }

    #[test]
    fn an_interrupted_checkout_goes_on_or_back_and_nowhere_else() {
        let (from, to) = (Some(A), B);
        let held = CheckoutState::Changing { from, to };
        assert_eq!(start(held, B), Start::Recorded(A));
        assert_eq!(start(held, A), Start::Recorded(B));
        assert_eq!(start(held, C), Start::Unknown);
        let held = CheckoutState::Changing { from: None, to };
        assert_eq!(start(held, B), Start::Unknown);
    }

    #[test]
    fn interrupting_the_way_back_still_records_both_snapshots() {
        let held = CheckoutState::Changing {
            from: Some(A),
            to: B,
        };
        let back = start(held, A);
        let from = back.snapshot();
        let held = CheckoutState::Changing { from, to: A };
        assert_eq!(start(held, A), Start::Recorded(B));
        assert_eq!(start(held, B), Start::Recorded(A));
    }
}
