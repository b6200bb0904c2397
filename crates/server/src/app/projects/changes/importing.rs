//! Imports into a project: directories, snapshots, archives and git
//! repositories.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_archive::Limits;
use elevo_catalog::{LandingKind, Project};
use elevo_core::{ErrorCode, Name, RESERVED_NAME, TreePath};
use elevo_engine::{
    Diff, Error as EngineError, Ignoring, ImportOptions, Progress, Repository, StateTree,
};
use elevo_merge::IgnoreFiles;
use elevo_objects::{Entry, Mode, Tree};
use futures::executor::block_on;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::app::access::principal::Principal;
use crate::app::files::diff::readable;
use crate::app::files::receive;
use crate::app::files::stored::tree_path;
use crate::app::projects::changes::Changes;
use crate::app::projects::landing::job::Job;
use crate::app::projects::project_ref::ProjectRef;
use crate::app::projects::trees::committed;
use crate::app::requests::once::Once;
use crate::app::snapshots::{Kept, info, losses_out, writing};
use crate::failure::{Failure, Result};
use crate::platform::archive;

/// Limits the imports that read files at the same time.
static READING: Semaphore = Semaphore::const_new(4);

/// Names that a project never contains.
const NEVER: [&[u8]; 2] = [b".git", RESERVED_NAME];

/// Imported files as a snapshot, and descriptions of metadata that it could not
/// keep.
pub(crate) struct ImportedFiles {
    pub(super) snapshot: Kept,
    pub(super) not_kept: Vec<String>,
}

/// The principal, the destination and the options of an import.
pub(crate) struct Target {
    pub(crate) who: Principal,
    pub(crate) project: Project,
    pub(crate) path: TreePath,
    pub(crate) message: String,
    /// Computes the result without landing it.
    pub(crate) dry_run: bool,
    pub(crate) once: Once,
}

impl Changes {
    /// Replaces a directory of a project by a directory on the server's machine,
    /// a git commit or a snapshot, or lands a git history. The import continues
    /// if the client disconnects.
    pub(crate) async fn import_into(
        self: &Arc<Self>,
        who: &Principal,
        id: &ProjectRef,
        wish: api::ImportSource,
        once: Once,
    ) -> Result<api::ImportResult> {
        who.needs(Scope::ProjectsWrite)?;
        if wish.directory.is_some() || wish.git.is_some() {
            who.needs(Scope::Host)?;
        }
        let path = wish.path.clone().unwrap_or_default();
        let target = Target {
            message: wish.message.clone(),
            dry_run: wish.dry_run,
            ..self.target(who, id, &path, once).await?
        };
        if let Some(done) = self.imported_before(&target).await? {
            return Ok(done);
        }
        if wish.git.is_none() && (wish.revision.is_some() || wish.history) {
            let message = "`revision` and `history` need `git`";
            return Err(Failure::invalid(message));
        }
        let (app, turn) = (self.clone(), turn().await?);
        let importing = self.stores.spawn(who.tenant, async move {
            let _turn = turn;
            let files = match (wish.directory, wish.git, wish.snapshot) {
                (Some(path), None, None) => app.read_directory(&target, path.into()).await?,
                (None, None, Some(id)) => app.read_snapshot(&target, &id).await?,
                (None, Some(path), None) => {
                    let revision = wish.revision.unwrap_or_else(|| "HEAD".into());
                    let source = (absolute(path.into())?, revision);
                    // A dry run reports the changes of all steps together, which
                    // are those of the newest commit.
                    match wish.history && !target.dry_run {
                        true => return app.land_history(target, source).await,
                        false => app.read_git(&target, source).await?,
                    }
                }
                _ => {
                    let message =
                        "the request must have exactly one of `directory`, `git` and `snapshot`";
                    return Err(Failure::invalid(message));
                }
            };
            app.land_files(target, LandingKind::Import, files).await
        });
        importing.await.map_err(|error| Failure::internal(&error))?
    }

    /// Replaces a directory of a project by the content of a tar archive.
    pub(crate) async fn unpack_into(
        self: &Arc<Self>,
        who: &Principal,
        id: &ProjectRef,
        (path, dry_run): (&str, bool),
        from: impl io::Read + Send + 'static,
        once: Once,
    ) -> Result<api::ImportResult> {
        who.needs(Scope::ProjectsWrite)?;
        let target = Target {
            dry_run,
            ..self.target(who, id, path, once).await?
        };
        if let Some(done) = self.imported_before(&target).await? {
            return Ok(done);
        }
        let limits = archive::limits(self.config.limits.max_archive);
        let repository = self.stores.repository(who.tenant);
        let said = info(who, format!("an archive for {}", target.project.name));
        let unpacking = move || unpacked(&repository, from, limits, said);
        let files = self.stores.blocking(who.tenant, unpacking).await?;
        self.land_files(target, LandingKind::Archive, files).await
    }

    async fn target(
        &self,
        who: &Principal,
        id: &ProjectRef,
        path: &str,
        once: Once,
    ) -> Result<Target> {
        Ok(Target {
            who: who.clone(),
            project: self.projects.find(who, id).await?,
            path: tree_path(path)?,
            message: String::new(),
            dry_run: false,
            once,
        })
    }

    /// Returns the result of an earlier attempt of this request, if that attempt
    /// has landed.
    async fn imported_before(&self, target: &Target) -> Result<Option<api::ImportResult>> {
        let done = self.landings.landed_before(&target.project, &target.once);
        Ok(done.await?.map(|merge| api::ImportResult {
            steps: merge.step.iter().count() as u64,
            merge,
            not_kept: Vec::new(),
        }))
    }

    async fn read_directory(&self, target: &Target, path: PathBuf) -> Result<ImportedFiles> {
        let path = absolute(path)?;
        let repository = self.stores.repository(target.who.tenant);
        let said = info(&target.who, format!("imported from {}", path.display()));
        let ignoring = self.ignoring(target).await?;
        let reading = move || read(&repository, &path, said, ignoring);
        self.stores.blocking(target.who.tenant, reading).await
    }

    /// Returns the rules for paths that an import skips. As in merges, paths that
    /// `.gitignore` files name are skipped, unless the project contains them or
    /// its policy does not follow `.gitignore`.
    async fn ignoring(&self, target: &Target) -> Result<Option<Ignoring>> {
        let Target { who, project, .. } = target;
        if !self
            .projects
            .compiled_policy(project)
            .await?
            .follows_gitignore()
        {
            return Ok(None);
        }
        let (_, tree) = self.changeable(who, project, None).await?;
        let tracked = match target.path.is_root() {
            true => vec![tree.tree().await?],
            false => match tree.entry(&target.path).await? {
                Some(Entry::Directory { tree, .. }) => vec![tree],
                _ => Vec::new(),
            },
        };
        let rules = Arc::new(IgnoreFiles::default());
        Ok(Some(Ignoring { rules, tracked }))
    }

    async fn read_snapshot(&self, target: &Target, id: &str) -> Result<ImportedFiles> {
        let kept = self.snapshots.snapshot_id(&target.who, id).await?;
        let repository = self.stores.repository(target.who.tenant);
        let tree = StateTree::open(&repository, kept.id).await?;
        let snapshot = match without_never(&tree).await? {
            true => {
                let said = format!("{} without .git and .elevo", kept.id);
                committed(&tree, info(&target.who, said)).await?
            }
            false => kept,
        };
        Ok(ImportedFiles {
            snapshot,
            not_kept: Vec::new(),
        })
    }

    /// Lands imported files as one step.
    async fn land_files(
        self: &Arc<Self>,
        target: Target,
        kind: LandingKind,
        files: ImportedFiles,
    ) -> Result<api::ImportResult> {
        let Target { who, project, .. } = &target;
        let (base, theirs) = self.replaced(&target, &files.snapshot).await?;
        let wish = api::Merge {
            message: target.message.clone(),
            ..api::Merge::default()
        };
        let job = Job {
            kind,
            base: Some(base),
            ..Job::new(who, &wish, theirs, target.once.landing())
        };
        if target.dry_run {
            target.once.rehearsed();
        }
        let merge = self.landings.settle(project, job, target.dry_run).await?;
        Ok(api::ImportResult {
            steps: merge.step.iter().count() as u64,
            merge,
            not_kept: files.not_kept,
        })
    }

    /// Returns two snapshots: the head, and the head with the target directory
    /// replaced by `files`.
    async fn replaced(&self, target: &Target, files: &Kept) -> Result<(Kept, Kept)> {
        let Target {
            who, project, path, ..
        } = target;
        let (base, tree) = self.changeable(who, project, None).await?;
        if path.is_root() {
            return Ok((base, files.clone()));
        }
        replace(&tree, path, files.snapshot.tree).await?;
        let said = info(who, format!("files for {}", project.name));
        Ok((base, committed(&tree, said).await?))
    }
}

/// Puts a directory at a path. Replaces an existing entry.
pub(crate) async fn replace(tree: &StateTree, path: &TreePath, by: Tree) -> Result<()> {
    let entry = Entry::Directory {
        mode: Mode::EXECUTABLE,
        tree: by,
    };
    let put = tree.put(path, entry).await;
    put.map_err(|error| match error {
        EngineError::NotADirectory(file) => {
            let file = readable(file.as_bytes());
            let message = format!("`{file}` is not a directory");
            Failure::new(ErrorCode::PathNotFound, message).about("path", file)
        }
        error => error.into(),
    })
}

async fn turn() -> Result<SemaphorePermit<'static>> {
    let turn = READING.acquire().await;
    turn.map_err(|error| Failure::internal(&error))
}

fn absolute(path: PathBuf) -> Result<PathBuf> {
    match path.is_absolute() && path.is_dir() {
        true => Ok(path),
        false => {
            let message =
                "an import needs the absolute path of a directory on the server's machine";
            Err(Failure::invalid(message))
        }
    }
}

/// Stores the files of a directory as a snapshot.
fn read(
    repository: &Repository,
    path: &Path,
    said: elevo_engine::CommitInfo,
    ignoring: Option<Ignoring>,
) -> Result<ImportedFiles> {
    let never = NEVER.iter().map(|name| Name::copy_from(name));
    let options = ImportOptions {
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        leave_out: never.flatten().collect(),
        ignoring,
    };
    let imported = elevo_engine::import(repository, path, &options, &Progress::new())?;
    let not_kept = losses_out(&imported.losses);
    let _writing = writing(repository)?;
    let id = block_on(imported.commit(repository, said))?;
    let snapshot = block_on(Kept::of(repository, id))?;
    Ok(ImportedFiles { snapshot, not_kept })
}

/// Stores the files of a tar archive as a snapshot. Rejects an archive without
/// files.
fn unpacked(
    repository: &Repository,
    from: impl io::Read + Send,
    limits: Limits,
    said: elevo_engine::CommitInfo,
) -> Result<ImportedFiles> {
    let received = receive(repository, from, limits)?;
    let is_left_out = received.tree.count == 0 && !received.losses.is_empty();
    let had_only_git = block_on(without_never(&received.state))?
        && block_on(received.state.tree())? == Tree::EMPTY;
    if received.entries == 0 || is_left_out || had_only_git {
        // An empty archive is probably a mistake, and it would delete the whole
        // directory that it replaces.
        let message = "the archive contains nothing to import";
        return Err(Failure::new(ErrorCode::ArchiveRefused, message));
    }
    Ok(ImportedFiles {
        snapshot: block_on(committed(&received.state, said))?,
        not_kept: losses_out(&received.losses),
    })
}

/// Removes all entries whose names a project never contains. Returns true if
/// there were any.
async fn without_never(tree: &StateTree) -> Result<bool> {
    let repository = tree.repository().clone();
    let mut inside = Diff::new(&repository, Tree::EMPTY, tree.tree().await?);
    let mut found = false;
    while let Some(change) = inside.next().await? {
        let name = change.path.split_last().map(|(_, name)| name);
        if name.is_some_and(|name| NEVER.contains(&name.as_bytes())) {
            tree.remove(&change.path).await?;
            inside.skip_inside();
            found = true;
        }
    }
    Ok(found)
}
