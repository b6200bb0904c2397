use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use elevo_core::TreePath;
use elevo_engine::{
    CheckoutOptions, Error, ExistingContent, Progress, Repository, StateTree, checkout,
};
use elevo_merge::IgnoreFiles;
use elevo_objects::{Snapshot, Tree};

use crate::errors::{DirectoryProblem, SnapshotProblem};
use crate::local::checkout_record::DirectoryLock;
use crate::local::read_directory::check_apart;
use crate::local::session::Session;
use crate::local::tree_path::tree_path;
use crate::local::wait::{left_out, wait};
use crate::local::working_tree::{WorkingTree, base_of};
use crate::output::format::short;
use crate::output::progress::{self, Watch};
use crate::output::tree_diff::{DiffOptions, print_tree_diff};

/// Make files of the working directory equal to those of a snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
Overwrites the files at and below the named paths, without a question, and lists
the changes. A path that the snapshot does not have is deleted. Other files and
ignored files stay as they are, and `@` does not move. Unlike other paths, these
are relative to the current directory.

Examples:
  elevo restore README.md               discard the changes of a file
  elevo restore src --from v1 --dry-run
  elevo restore . --from head~1         the current directory")]
pub(crate) struct Restore {
    /// Files or directories of the working directory
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// The snapshot; by default that of the last commit or checkout here
    #[arg(long, value_name = "REV")]
    from: Option<String>,

    /// Only list the changes
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(session: &mut Session, args: &Restore) -> anyhow::Result<()> {
    let (place, directory) = session.working_place(None)?;
    check_apart(&place.store, &directory)?;
    let paths = args
        .paths
        .iter()
        .map(|path| inside(session, &directory, path));
    let paths = paths.collect::<anyhow::Result<Vec<_>>>()?;
    let _lock = DirectoryLock::take(&directory)?;
    let view = session.view_of(&place)?;
    let base = base_of(&view.repository, &directory)?;
    let (id, source) = match (&args.from, base.clone()) {
        (Some(text), _) => view.resolve(text)?,
        (None, Some(base)) => base,
        (None, None) => return Err(SnapshotProblem::NothingCommitted.into()),
    };
    let tracked = base.iter().map(|(_, snapshot)| snapshot.tree);
    let tracked = tracked.chain([source.tree]).collect();
    let store = &place.store;
    let now = WorkingTree::scan(session, &view.repository, store, &directory, tracked)?;
    let (after, repository) = wait(replaced(&now, &source, &paths))?;
    let shown = DiffOptions::names();
    if now.tree == after {
        session.note(&format!("nothing differs from {}", short(id)));
    } else if args.dry_run {
        session.note("nothing was written, because of --dry-run");
    } else {
        let target = Snapshot {
            tree: after,
            times: None,
            ..source
        };
        write(session, &repository, &directory, &now, &target)?;
        session.note(&format!("restored from {}", short(id)));
    }
    print_tree_diff(session, &repository, now.tree, after, shown)?;
    Ok(())
}

/// Returns the path of an argument within the working directory.
fn inside(session: &Session, directory: &Path, path: &Path) -> anyhow::Result<TreePath> {
    // The file may be gone, so the path cannot be looked up.
    let mut full = PathBuf::new();
    for part in session.path(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                full.pop();
            }
            part => full.push(part),
        }
    }
    match full.strip_prefix(directory) {
        Ok(inside) => Ok(tree_path(inside.as_os_str())?),
        Err(_) => Err(DirectoryProblem::OutsideWorking {
            path: full,
            working: directory.into(),
        }
        .into()),
    }
}

/// Returns the tree of the working directory in which the paths are replaced by
/// those of `source`, and a repository that has both trees.
async fn replaced(
    now: &WorkingTree,
    source: &Snapshot,
    paths: &[TreePath],
) -> anyhow::Result<(Tree, Repository)> {
    if paths.iter().any(TreePath::is_root) {
        return Ok((source.tree, now.repository.clone()));
    }
    let snapshot = Snapshot {
        tree: now.tree,
        times: None,
        ..source.clone()
    };
    let before = StateTree::at(&now.repository, &snapshot);
    let after = StateTree::at(&now.repository, &snapshot);
    let source = StateTree::at(&now.repository, source);
    for path in paths {
        match source.entry(path).await? {
            Some(entry) => after.put(path, entry).await?,
            None if before.entry(path).await?.is_none() => {
                return Err(Error::NotFound(path.clone()).into());
            }
            None => match after.remove(path).await {
                // The path is removed already, because a directory above it was
                // named too.
                Err(Error::NotFound(_)) => {}
                removed => removed?,
            },
        }
    }
    let diff = before.diff(&after).await?;
    Ok((after.tree().await?, diff.repository().clone()))
}

/// Changes the files of the working directory that differ from `target`.
fn write(
    session: &Session,
    repository: &Repository,
    directory: &Path,
    now: &WorkingTree,
    target: &Snapshot,
) -> anyhow::Result<()> {
    let options = CheckoutOptions {
        threads: session.threads(),
        leave_out: left_out(),
        ignoring: Some(Arc::new(IgnoreFiles::default())),
        force: true,
        clone_source: None,
        owner: None,
    };
    let present = ExistingContent::Found {
        tree: now.tree,
        view: repository.clone(),
    };
    let progress = Progress::new();
    let watch = Watch {
        doing: "restoring",
        things: "entries",
        total: None,
        counts: || (progress.entries(), progress.bytes()),
    };
    progress::watch(session.hides_progress(), watch, || {
        checkout(repository, target, directory, &present, &options, &progress)
    })?;
    Ok(())
}
