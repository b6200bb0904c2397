use std::path::PathBuf;

use clap::Args;
use elevo_engine::{Expected, Imported};
use elevo_objects::Snapshot;

use crate::errors::SnapshotProblem;
use crate::local::checkout_record::{CheckoutRecord, CheckoutState, DirectoryLock};
use crate::local::read_directory;
use crate::local::revision::{self, HEAD};
use crate::local::session::Session;
use crate::local::working_tree::base_of;
use crate::options::snapshot::SnapshotOptions;
use crate::output::saved_snapshot::SavedSnapshot;

/// Save the working directory as the next snapshot of its history.
#[derive(Debug, Args)]
#[command(after_help = "\
The working directory is the current directory or the nearest one above it that
has `.elevo` in it. The parent of the snapshot is that of the last commit or
checkout here, otherwise `head`. `head` then moves to the new snapshot. If
`head` is not at the parent, the command fails and changes nothing.

Examples:
  elevo commit -m \"an edit\"
  elevo commit --detach -m \"a try\"        do not move head
  elevo commit --parent head             save this directory on top of head
  elevo commit ../copy --author ci")]
pub(crate) struct Commit {
    /// The working directory; by default the one around the current directory
    directory: Option<PathBuf>,

    #[command(flatten)]
    about: SnapshotOptions,

    /// Parent of the snapshot, instead of that of the last commit or checkout
    #[arg(long, value_name = "REV")]
    parent: Option<String>,

    /// Do not move `head`
    #[arg(long)]
    detach: bool,

    /// Create a snapshot even if nothing changed
    #[arg(long)]
    allow_empty: bool,
}

impl Commit {
    /// The directory argument.
    pub(crate) fn directory(&self) -> Option<&std::path::Path> {
        self.directory.as_deref()
    }
}

pub(crate) fn run(session: &mut Session, args: Commit) -> anyhow::Result<()> {
    let (place, directory) = session.working_place(args.directory.as_deref())?;
    read_directory::check_apart(&place.store, &directory)?;
    let _lock = DirectoryLock::take(&directory)?;
    let repository = session.write(&place)?;
    let head = revision::reference_at(&repository, HEAD)?;
    let parent = match &args.parent {
        Some(text) => {
            let record = CheckoutRecord::read(&directory);
            let here = record.as_ref().and_then(CheckoutRecord::snapshot);
            Some(revision::resolve(&repository, here, text)?)
        }
        None => base_of(&repository, &directory)?,
    };
    let parent_id = parent.as_ref().map(|(id, _)| *id);
    if !args.detach && head.is_some() && head != parent_id {
        let here = parent_id;
        return Err(SnapshotProblem::HeadElsewhere { here, head }.into());
    }
    let before = parent.as_ref().map(|(_, parent)| parent);
    let read =
        read_directory::read_directory(session, &repository, &place.store, &directory, before)?;
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
    CheckoutRecord::new(&place.store, CheckoutState::Snapshot(id)).write(&directory)?;
    if unchanged.is_none() && parent.is_some_and(|(_, parent)| parent.tree == tree) {
        session.note("content and permissions are the same as before");
    }
    let kept = SavedSnapshot {
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

fn is_equal(parent: &Snapshot, imported: &Imported) -> bool {
    parent.tree == imported.tree && parent.times == imported.times
}
