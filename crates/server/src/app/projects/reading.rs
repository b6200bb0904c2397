//! Reads files, directories and differences of any version of a project, without
//! the paths that are hidden from the principal.

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Project;
use elevo_core::{ErrorCode, TreePath};
use elevo_engine::{Change, ChangeKind, Diff, Repository, StateTree};
use elevo_objects::{Entry, SnapshotId};
use elevo_policy::View;

use crate::app::access::principal::Principal;
use crate::app::files::diff::{ChangeList, PatchText, StatList};
use crate::app::files::stored::{StoredTree, is_directory, no_path, shows, visible_entry};
use crate::app::projects::Projects;
use crate::app::projects::project_ref::ProjectRef;
use crate::app::snapshots::{Kept, info};
use crate::app::workspaces::hide::hide;
use crate::failure::{Failure, Result, short};

/// Name of a version in messages.
const NOUN: &str = "this version of the project";

/// A version of a project, with the paths of it that a principal may see.
pub(crate) struct Seen {
    pub(crate) project: Project,
    pub(crate) view: View,
    pub(crate) snapshot: SnapshotId,
    pub(crate) tree: StateTree,
}

impl Projects {
    /// Opens a version of a project for reading, by default the head.
    pub(crate) async fn seen(
        &self,
        who: &Principal,
        project: &ProjectRef,
        at: Option<&str>,
    ) -> Result<Seen> {
        who.needs(Scope::ProjectsRead)?;
        let project = self.find(who, project).await?;
        let view = self.view(who, &project).await?;
        let version = self.version(&project, at).await?;
        let repository = self.stores.repository(who.tenant);
        let tree = StateTree::open(&repository, version.id).await?;
        Ok(Seen {
            project,
            view,
            snapshot: version.id,
            tree,
        })
    }

    /// Opens the files of a version of a project, by default of the head.
    pub(crate) async fn files(
        &self,
        who: &Principal,
        project: &ProjectRef,
        at: Option<&str>,
    ) -> Result<StoredTree> {
        who.needs(Scope::ProjectsRead)?;
        let project = self.find(who, project).await?;
        let view = self.view(who, &project).await?;
        let version = (self.version(&project, at).await?, NOUN);
        Ok(StoredTree::open(&self.stores, who.tenant, version, view))
    }

    /// Returns the visible changes between two versions of a project.
    pub(crate) async fn diff(
        &self,
        who: &Principal,
        project: &ProjectRef,
        (from, to): (Option<&str>, Option<&str>),
        limit: usize,
    ) -> Result<api::Diff> {
        let (mut diff, seen, base) = self.states(who, project, from, to).await?;
        let mut list = ChangeList::new(base.id, limit);
        while let Some(change) = seen.next_of(&mut diff).await? {
            list.add(&change);
        }
        Ok(list.0)
    }

    /// Returns the visible changes between two versions of a project as a patch
    /// for `git apply`.
    pub(crate) async fn patch(
        &self,
        who: &Principal,
        project: &ProjectRef,
        (from, to): (Option<&str>, Option<&str>),
    ) -> Result<Vec<u8>> {
        let (mut diff, seen, _base) = self.states(who, project, from, to).await?;
        let repository = diff.repository().clone();
        let mut patch = PatchText::default();
        while let Some(change) = seen.next_of(&mut diff).await? {
            patch.add(&repository, &change).await?;
        }
        Ok(patch.bytes)
    }

    /// Returns the numbers of added and removed lines between two versions of a
    /// project, for each visible file and in total.
    pub(crate) async fn stat(
        &self,
        who: &Principal,
        project: &ProjectRef,
        (from, to): (Option<&str>, Option<&str>),
        limit: usize,
    ) -> Result<api::DiffStat> {
        let (mut diff, seen, base) = self.states(who, project, from, to).await?;
        let repository = diff.repository().clone();
        let mut stat = StatList::new(base.id, limit);
        while let Some(change) = seen.next_of(&mut diff).await? {
            stat.add(&repository, change).await?;
        }
        Ok(stat.out)
    }

    /// Opens two versions of a project for a comparison: `to`, by default the
    /// head, and `from`, by default the version before `to`.
    async fn states(
        &self,
        who: &Principal,
        project: &ProjectRef,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<(Diff, Seen, Kept)> {
        let after = self.seen(who, project, to).await?;
        let from = match from {
            Some(_) => self.version(&after.project, from).await?,
            None => self.before(&after).await?,
        };
        let repository = after.tree.repository().clone();
        let before = from.snapshot.tree;
        let diff = Diff::new(&repository, before, after.tree.tree().await?);
        Ok((diff, after, from))
    }

    /// Returns the version before this one; for the first version, that version
    /// itself.
    pub(crate) async fn before(&self, seen: &Seen) -> Result<Kept> {
        let landed =
            self.catalog
                .landing_of_snapshot(seen.project.tenant, &seen.project.id, seen.snapshot);
        let before = landed.await?.map_or(seen.snapshot, |entry| entry.parent);
        self.snapshots.keep_version(&seen.project, before).await
    }

    /// Returns a version of a project by its snapshot id or tag; without either,
    /// the head.
    pub(crate) async fn version(&self, project: &Project, text: Option<&str>) -> Result<Kept> {
        let Some(text) = text else {
            return self.snapshots.keep_head(project).await;
        };
        let id = match text.parse() {
            Ok(id) => id,
            Err(_) => self.tagged(project, text).await?,
        };
        if id == project.head || self.was_head(project, id).await? {
            return self.snapshots.keep_version(project, id).await;
        }
        let message = format!("snapshot `{}` is not a version of the project", short(text));
        let failure = Failure::new(ErrorCode::SnapshotNotFound, message);
        Err(failure.remediation("Choose a snapshot from `elevo project log`."))
    }

    async fn was_head(&self, project: &Project, id: SnapshotId) -> Result<bool> {
        let landed = self
            .catalog
            .landing_of_snapshot(project.tenant, &project.id, id)
            .await?;
        if landed.is_some() {
            return Ok(true);
        }
        // The first version has no step; it is the parent of step 1.
        let first = self.catalog.landing(project.tenant, &project.id, 1).await?;
        Ok(first.is_some_and(|first| first.parent == id))
    }

    /// Returns a snapshot without the paths that the view hides: a new snapshot,
    /// or `of` if it has no such paths.
    pub(crate) async fn visible_part(
        &self,
        who: &Principal,
        of: &Kept,
        view: &View,
    ) -> Result<Kept> {
        if !view.hides_anything() {
            return Ok(of.clone());
        }
        let repository = self.stores.repository(who.tenant);
        let snapshot = &of.snapshot;
        let tree = StateTree::at(&repository, snapshot);
        hide(&tree, view).await?;
        if tree.tree().await? == snapshot.tree {
            return Ok(of.clone());
        }
        let mut info = info(who, format!("visible part of {}", of.id));
        // The same part of the same snapshot always gets the same id.
        info.created = snapshot.created;
        Kept::of(&repository, tree.commit(info).await?).await
    }
}

impl Seen {
    /// Returns the entry at a path. Fails if the path does not exist or is
    /// hidden, with the same message.
    pub(crate) async fn entry(&self, path: &TreePath) -> Result<Entry> {
        let found = visible_entry(&self.tree, &self.view, path).await?;
        found.ok_or_else(|| no_path(path, NOUN))
    }

    /// Returns true if a path is visible or, for a directory, if any path in it
    /// may be.
    pub(crate) fn shows(&self, path: &TreePath, is_directory: bool) -> bool {
        shows(&self.view, path, is_directory)
    }

    /// Returns the next visible change of a comparison.
    async fn next_of(&self, diff: &mut Diff) -> Result<Option<Change>> {
        while let Some(change) = diff.next().await? {
            if let Some(kind) = self.shown_part(&change.path, change.kind) {
                let path = change.path;
                return Ok(Some(Change { path, kind }));
            }
            diff.skip_inside();
        }
        Ok(None)
    }

    /// Returns a change without its hidden side; `None` if it is hidden
    /// completely. One side alone can be hidden if a file became a directory or a
    /// directory a file.
    fn shown_part(&self, path: &TreePath, kind: ChangeKind) -> Option<ChangeKind> {
        let is_shown = |entry: &Entry| self.shows(path, is_directory(entry));
        match kind {
            ChangeKind::Added(entry) => is_shown(&entry).then_some(ChangeKind::Added(entry)),
            ChangeKind::Removed(entry) => is_shown(&entry).then_some(ChangeKind::Removed(entry)),
            ChangeKind::TypeChanged { before, after } => {
                match (is_shown(&before), is_shown(&after)) {
                    (true, true) => Some(ChangeKind::TypeChanged { before, after }),
                    (true, false) => Some(ChangeKind::Removed(before)),
                    (false, true) => Some(ChangeKind::Added(after)),
                    (false, false) => None,
                }
            }
            kind => kind.after().is_some_and(is_shown).then_some(kind),
        }
    }

    pub(crate) fn repository(&self) -> &Repository {
        self.tree.repository()
    }
}
