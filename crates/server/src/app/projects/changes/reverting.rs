//! Undoes landed changes: those of a step, those of a step at one path, or all
//! changes of a path since a version.

use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{LandingKind, LogEntry, Project};
use elevo_core::{ErrorCode, TreePath};
use elevo_engine::StateTree;
use elevo_objects::{Entry, SnapshotId, Tree};

use crate::app::access::principal::Principal;
use crate::app::files::diff::readable;
use crate::app::files::stored::tree_path;
use crate::app::projects::changes::{Changes, not_put, removed};
use crate::app::projects::landing::job::Job;
use crate::app::projects::project_ref::ProjectRef;
use crate::app::projects::trees::committed;
use crate::app::requests::once::Once;
use crate::app::snapshots::{Kept, info};
use crate::failure::{Failure, Result};

/// A change that undoes earlier changes: from `base` to `theirs`, with the
/// message of the step if the request has none.
struct Undoing {
    base: Kept,
    theirs: Kept,
    message: String,
}

impl Changes {
    /// Undoes the changes of one step, at all paths or at one path.
    pub(crate) async fn revert(
        self: &Arc<Self>,
        who: &Principal,
        id: &ProjectRef,
        wish: api::Revert,
        once: Once,
    ) -> Result<api::MergeResult> {
        who.needs(Scope::ProjectsWrite)?;
        let project = self.projects.find(who, id).await?;
        self.landings
            .check_override(&project, wish.merge.strategy)
            .await?;
        if let Some(done) = self.landings.landed_before(&project, &once).await? {
            return Ok(done);
        }
        let path = wish.path.as_deref().filter(|path| !path.is_empty());
        let path = path.map(inner_path).transpose()?;
        let undoing = self
            .step_back(who, &project, &wish.snapshot, path.as_ref())
            .await?;
        self.undo(
            who,
            &project,
            LandingKind::Revert,
            undoing,
            wish.merge,
            once,
        )
        .await
    }

    /// Restores a path of a project to its state in a version.
    pub(crate) async fn restore_path(
        self: &Arc<Self>,
        who: &Principal,
        id: &ProjectRef,
        wish: api::RestorePath,
        once: Once,
    ) -> Result<api::MergeResult> {
        who.needs(Scope::ProjectsWrite)?;
        let project = self.projects.find(who, id).await?;
        self.landings
            .check_override(&project, wish.merge.strategy)
            .await?;
        if let Some(done) = self.landings.landed_before(&project, &once).await? {
            return Ok(done);
        }
        let path = inner_path(&wish.path)?;
        let undoing = self.path_back(who, &project, &wish.snapshot, &path).await?;
        self.undo(
            who,
            &project,
            LandingKind::Restore,
            undoing,
            wish.merge,
            once,
        )
        .await
    }

    async fn undo(
        self: &Arc<Self>,
        who: &Principal,
        project: &Project,
        kind: LandingKind,
        undoing: Undoing,
        mut wish: api::Merge,
        once: Once,
    ) -> Result<api::MergeResult> {
        if wish.message.is_empty() {
            wish.message = undoing.message;
        }
        let job = Job {
            kind,
            base: Some(undoing.base),
            ..Job::new(who, &wish, undoing.theirs, once.landing())
        };
        if wish.dry_run {
            once.rehearsed();
        }
        self.landings.settle(project, job, wish.dry_run).await
    }

    /// Computes the change from the version after a step to the version before
    /// the step, at all paths or at one path.
    async fn step_back(
        &self,
        who: &Principal,
        project: &Project,
        snapshot: &str,
        path: Option<&TreePath>,
    ) -> Result<Undoing> {
        let after = self.projects.version(project, Some(snapshot)).await?;
        let step = self.step_of(project, after.id).await?;
        let view = self.projects.view(who, project).await?;
        let before = self.snapshots.keep_version(project, step.parent).await?;
        let base = self.projects.visible_part(who, &after, &view).await?;
        let theirs = self.projects.visible_part(who, &before, &view).await?;
        let Some(path) = path else {
            let message = format!("undo step {}", step.sequence);
            return Ok(Undoing {
                base,
                theirs,
                message,
            });
        };
        let repository = self.stores.repository(who.tenant);
        let tree = StateTree::open(&repository, base.id).await?;
        let before = StateTree::open(&repository, theirs.id).await?;
        let then = before.entry(path).await?;
        let path_text = readable(path.as_bytes());
        if then == tree.entry(path).await? {
            let message = format!("step {} did not change `{path_text}`", step.sequence);
            return Err(Failure::new(ErrorCode::PathNotFound, message).about("path", path_text));
        }
        put(&tree, path, then).await?;
        remove_new_directories(&tree, &before, path).await?;
        let message = format!("undo step {} at {path_text}", step.sequence);
        let theirs = committed(&tree, info(who, message.clone())).await?;
        Ok(Undoing {
            base,
            theirs,
            message,
        })
    }

    /// Returns the step that created a version.
    async fn step_of(&self, project: &Project, snapshot: SnapshotId) -> Result<LogEntry> {
        let found = self
            .catalog
            .landing_of_snapshot(project.tenant, &project.id, snapshot);
        found.await?.ok_or_else(|| {
            let message = "the project began with this version, so there is no step to undo";
            Failure::new(ErrorCode::SnapshotNotFound, message)
        })
    }

    /// Computes the change from the head to the head with `path` as it was in the
    /// version `snapshot`.
    async fn path_back(
        &self,
        who: &Principal,
        project: &Project,
        snapshot: &str,
        path: &TreePath,
    ) -> Result<Undoing> {
        let from = self.projects.version(project, Some(snapshot)).await?;
        let step = self
            .catalog
            .landing_of_snapshot(project.tenant, &project.id, from.id);
        let number = step.await?.map_or(0, |step| step.sequence);
        let (_, earlier) = self.changeable(who, project, Some(snapshot)).await?;
        let (base, tree) = self.changeable(who, project, None).await?;
        let then = earlier.entry(path).await?;
        let path_text = readable(path.as_bytes());
        if then.is_none() && tree.entry(path).await?.is_none() {
            let message = format!(
                "`{path_text}` exists neither in the head nor in this version of the project"
            );
            return Err(Failure::new(ErrorCode::PathNotFound, message).about("path", path_text));
        }
        put(&tree, path, then).await?;
        let message = format!("restore {path_text} from step {number}");
        let theirs = committed(&tree, info(who, message.clone())).await?;
        Ok(Undoing {
            base,
            theirs,
            message,
        })
    }
}

/// Parses a path, and rejects the root of the project.
fn inner_path(text: &str) -> Result<TreePath> {
    let path = tree_path(text)?;
    match path.is_root() {
        true => Err(Failure::invalid(
            "`path` must name a file or directory inside the project",
        )),
        false => Ok(path),
    }
}

/// Removes the parent directories of a path that are empty in `tree` and do not
/// exist in `before`.
async fn remove_new_directories(
    tree: &StateTree,
    before: &StateTree,
    path: &TreePath,
) -> Result<()> {
    let mut below = path.clone();
    while let Some((directory, _)) = below.split_last().filter(|(above, _)| !above.is_root()) {
        let is_empty = matches!(
            tree.entry(&directory).await?,
            Some(Entry::Directory { tree, .. }) if tree == Tree::EMPTY
        );
        if !is_empty || before.entry(&directory).await?.is_some() {
            break;
        }
        tree.remove(&directory).await?;
        below = directory;
    }
    Ok(())
}

/// Puts an entry at a path, or removes the path if there is no entry.
async fn put(tree: &StateTree, path: &TreePath, entry: Option<Entry>) -> Result<()> {
    let put = match entry {
        Some(entry) => tree.put(path, entry).await,
        None => removed(tree, path).await,
    };
    put.map_err(|error| not_put(path, error))
}
