use std::path::PathBuf;

use clap::Args;
use elevo_archive::Received;
use elevo_engine::{CommitInfo, Expected, Loss, LossKind, Repository, StateTree};
use elevo_objects::{Hash, SnapshotId, Tree};

use crate::errors::{FileProblem, TagProblem};
use crate::local::read_archive::{TarOptions, is_input};
use crate::local::revision::TAGS;
use crate::local::session::Session;
use crate::local::wait::wait;
use crate::local::{read_directory, revision, tag_name};
use crate::options::snapshot::SnapshotOptions;
use crate::output::saved_snapshot::{self, SavedSnapshot};

/// Save any directory or a tar archive as a snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
The snapshot is independent: `head` does not move, and the directory need not
belong to the store. Symbolic links are kept as links. The command reports what
a snapshot cannot contain, such as sockets and owners. Like `commit`, it leaves
out `.elevo`, `.git` and files that `.gitignore` names.

A file is read as a tar archive: plain, or compressed with gzip or zstd. It is
imported completely except `.elevo`, without unpacking it. Unsafe entries, such as names that lead out of the archive or links
used as directories, are rejected.

Examples:
  elevo import ~/photos -m \"before sorting\" --tag photos
  elevo import build --parent head --label job=42
  elevo import . --json
  elevo import site.tar.zst --tag site
  docker export box | elevo import - -m \"the box\"
  elevo import layer.tar --layer-on v1")]
pub(crate) struct Import {
    /// A directory, a tar archive, or - for a tar archive on standard input
    source: PathBuf,

    #[command(flatten)]
    tar: TarOptions,

    #[command(flatten)]
    about: SnapshotOptions,

    /// New tag for the snapshot
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,

    /// Parent of the snapshot
    #[arg(long, value_name = "REV")]
    parent: Option<String>,
}

impl Import {
    /// Whether it reads standard input.
    pub(crate) fn is_input(&self) -> bool {
        is_input(&self.source)
    }

    /// The directory to read; `None` for a tar archive.
    fn directory(&self, session: &Session) -> anyhow::Result<Option<PathBuf>> {
        let path = session.path(&self.source);
        match std::fs::metadata(&path) {
            _ if self.is_input() => Ok(None),
            Ok(found) if !found.is_dir() => Ok(None),
            Ok(_) if self.tar.is_given() => Err(FileProblem::NotATar(path).into()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(FileProblem::NotFound(path).into())
            }
            _ => Ok(Some(session.directory(&self.source)?)),
        }
    }
}

pub(crate) fn run(session: &mut Session, args: Import) -> anyhow::Result<()> {
    let directory = args.directory(session)?;
    let place = session.place(None)?;
    if let Some(directory) = &directory {
        read_directory::check_apart(&place.store, directory)?;
    }
    if let Some(name) = &args.tag {
        tag_name::check_tag_name(name)?;
    }
    let repository = session.write(&place)?;
    let resolve = |text: &String| revision::resolve(&repository, place.here(), text);
    let base = args.tar.layer_on.as_ref().map(resolve).transpose()?;
    let base = base.map(|(id, _)| id);
    // The parent of a layer is the snapshot below it by default.
    let parent = args.parent.as_ref().map(resolve).transpose()?;
    let parents: Vec<_> = match &parent {
        Some((id, _)) => vec![*id],
        None => base.into_iter().collect(),
    };
    let reference = args.tag.as_ref().map(|name| format!("{TAGS}{name}"));
    if let (Some(name), Some(reference)) = (&args.tag, &reference)
        && let Some(at) = revision::reference_at(&repository, reference)?
    {
        let name = name.clone();
        return Err(TagProblem::TagExists { name, at }.into());
    }
    let title = args.about.title();
    let expected = reference.clone().map(|name| (name, Expected::Absent));
    let read = match &directory {
        Some(directory) => {
            let parent = parent.as_ref().map(|(_, parent)| parent);
            let store = &place.store;
            let read =
                read_directory::read_directory(session, &repository, store, directory, parent)?;
            let losses = read.imported.losses.iter();
            for loss in losses.filter(|loss| loss.kind == LossKind::Ignored) {
                session.note(&saved_snapshot::describe_loss(loss));
            }
            Read::Directory(Box::new(read))
        }
        None => {
            let base = base.map(|id| wait(StateTree::open(&repository, id)));
            let base = base.transpose()?;
            let read = args.tar.read(session, &repository, &args.source, base)?;
            Read::Tar(Box::new(read))
        }
    };
    let (tree, times, losses) = read.parts();
    let info = args.about.into_info(session, parents.clone(), expected);
    let id = read.commit(&repository, info)?;
    let kept = SavedSnapshot {
        id,
        title,
        parents,
        tree,
        times,
        losses,
        made: true,
        reference,
    };
    kept.print(session)
}

/// A directory or archive that was read but not committed yet.
enum Read {
    Directory(Box<read_directory::ReadDirectory>),
    Tar(Box<Received>),
}

impl Read {
    fn parts(&self) -> (Tree, Option<Hash>, Vec<Loss>) {
        match self {
            Self::Directory(read) => {
                let read = &read.imported;
                (read.tree, read.times, read.losses.clone())
            }
            Self::Tar(read) => (read.tree, read.times, read.losses.clone()),
        }
    }

    fn commit(self, repository: &Repository, info: CommitInfo) -> anyhow::Result<SnapshotId> {
        Ok(match self {
            Self::Directory(read) => read.commit(repository, info)?,
            Self::Tar(read) => wait(read.state.commit(info))?,
        })
    }
}
