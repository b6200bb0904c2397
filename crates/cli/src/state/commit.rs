use std::path::PathBuf;

use clap::Args;
use elevo_engine::{Expected, Imported, Repository};
use elevo_objects::{Snapshot, SnapshotId};

use super::about::About;
use super::keep::{self, Kept};
use crate::errors::Problem;
use crate::record::{DirectoryLock, Held, Record};
use crate::revision::{self, HEAD};
use crate::session::{Session, wait};

/// Keep the working directory as the next snapshot of its history.
#[derive(Debug, Args)]
#[command(after_help = "\
The working directory is the one with `.elevo` in it, at the current directory
or above. Its snapshot's parent is the one that the last commit or checkout
left here, else `head`; `head` then moves to the new one. If head has moved
elsewhere in the meantime, nothing happens.

Examples:
  elevo state commit -m \"an edit\"
  elevo state commit --detach -m \"a try\"        beside head, which stays
  elevo state commit --parent head             what is here, on top of head
  elevo state commit ../copy --author ci")]
pub(crate) struct Commit {
    /// The working directory, if it is not this one
    directory: Option<PathBuf>,

    #[command(flatten)]
    about: About,

    /// The snapshot it follows, instead of the one that was here
    #[arg(long, value_name = "REV")]
    parent: Option<String>,

    /// Leave `head` where it is
    #[arg(long)]
    detach: bool,

    /// Make a snapshot even if nothing changed
    #[arg(long)]
    allow_empty: bool,
}

impl Commit {
    /// The working directory that was named.
    pub(crate) fn directory(&self) -> Option<&std::path::Path> {
        self.directory.as_deref()
    }
}

pub(crate) fn run(session: &mut Session, args: Commit) -> anyhow::Result<()> {
    let (place, directory) = session.working_place(args.directory.as_deref())?;
    keep::check_apart(&place.store, &directory)?;
    let _lock = DirectoryLock::take(&directory)?;
    let repository = session.write(&place)?;
    let head = revision::reference_at(&repository, HEAD)?;
    let record = Record::read(&directory);
    let parent = match &args.parent {
        Some(text) => {
            let here = record.as_ref().and_then(Record::snapshot);
            Some(revision::resolve(&repository, here, text)?)
        }
        None => recorded_parent(&repository, record, &directory, head)?,
    };
    let parent_id = parent.as_ref().map(|(id, _)| *id);
    if !args.detach && head.is_some() && head != parent_id {
        let here = parent_id;
        return Err(Problem::HeadElsewhere { here, head }.into());
    }
    let before = parent.as_ref().map(|(_, parent)| parent);
    let read = keep::read_directory(session, &repository, &place.store, &directory, before)?;
    let imported = &read.imported;
    let title = args.about.title();
    let (tree, times, losses) = (imported.tree, imported.times, imported.losses.clone());
    let unchanged = parent
        .as_ref()
        .filter(|(_, parent)| !args.allow_empty && is_equal(parent, imported))
        .map(|(id, _)| *id);
    let id = match unchanged {
        Some(id) => {
            read.keep(id);
            id
        }
        None => {
            let expected = head.map_or(Expected::Absent, Expected::At);
            let reference = (!args.detach).then(|| (HEAD.to_owned(), expected));
            let parents = parent_id.into_iter().collect();
            let info = args.about.into_info(session, parents, reference);
            read.commit(&repository, info)?
        }
    };
    Record::new(&place.store, Held::Snapshot(id)).write(&directory)?;
    if unchanged.is_none() && parent.is_some_and(|(_, parent)| parent.tree == tree) {
        session.note("content and permissions are the same as before");
    }
    let kept = Kept {
        id,
        title,
        parents: parent_id.into_iter().collect(),
        tree,
        times,
        losses,
        made: unchanged.is_none(),
        reference: (!args.detach && unchanged.is_none()).then(|| HEAD.to_owned()),
    };
    kept.print(session)
}

/// What the last commit or checkout left here, else head.
fn recorded_parent(
    repository: &Repository,
    record: Option<Record>,
    directory: &std::path::Path,
    head: Option<SnapshotId>,
) -> anyhow::Result<Option<(SnapshotId, Snapshot)>> {
    let recorded = match record.map(|record| record.held) {
        Some(Held::Changing { to, .. }) => {
            let (directory, source) = (directory.into(), None);
            let problem = Problem::Interrupted {
                directory,
                to,
                source,
            };
            return Err(problem.into());
        }
        Some(Held::Snapshot(id)) => find(repository, id)?,
        None => None,
    };
    match (recorded, head) {
        (Some(recorded), _) => Ok(Some(recorded)),
        (None, Some(head)) => Ok(Some((head, wait(repository.snapshot(head))?))),
        (None, None) => Ok(None),
    }
}

/// A snapshot, if it is in this store: the directory may have been checked out
/// from another.
fn find(repository: &Repository, id: SnapshotId) -> anyhow::Result<Option<(SnapshotId, Snapshot)>> {
    let found = wait(repository.store().snapshots(repository.tenant(), &[id]))?;
    let found = found.into_iter().next().flatten();
    Ok(found.map(|snapshot| (id, snapshot)))
}

fn is_equal(parent: &Snapshot, imported: &Imported) -> bool {
    parent.tree == imported.tree && parent.times == imported.times
}
