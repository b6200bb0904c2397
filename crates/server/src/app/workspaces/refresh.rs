//! Refreshes workspaces: merges the newer head of a project into their files.
//!
//! If both sides changed the same path, a refresh that an agent requests writes
//! the conflict into the workspace (`unsettled.rs`). An automatic refresh does
//! not change such a path: the workspace keeps its file and its base, so that
//! its next merge finds the conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{Project, Unsettled, Workspace, WorkspaceChange};
use elevo_core::{TreePath, WorkspaceId};
use elevo_engine::{CommitInfo, Progress, StateTree};
use elevo_merge::{LaterFirst, Limits, Rules, Sides, TreeMerge, merge_trees};
use elevo_objects::SnapshotId;
use elevo_policy::{Policy, View};

use crate::app::access::principal::Principal;
use crate::app::projects::trees::committed;
use crate::app::projects::{out, policies};
use crate::app::snapshots::{Kept, own_info};
use crate::app::workspaces::Workspaces;
use crate::app::workspaces::unsettled::Notes;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// Maximum attempts of a refresh while merges move the base of the workspace.
const ATTEMPTS: usize = 5;

/// Maximum entries of each kind in a response.
const LISTED: usize = 1000;

/// The way a refresh treats conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// Writes the conflicts into the workspace: as conflict markers in text
    /// files, and as records for other files.
    Leave,
    /// Keeps the files of the workspace at conflicting paths.
    Keep,
}

/// The computed result of a refresh, before it is written to the workspace.
struct Brought {
    merge: TreeMerge,
    /// Files that have conflict markers after the refresh.
    marked: Vec<TreePath>,
    /// The records of unsettled conflicts to write before the files; `None` if
    /// they do not change.
    first: Option<Vec<Unsettled>>,
    /// The records of unsettled conflicts to write after the files; `None` if
    /// they do not change.
    last: Option<Vec<Unsettled>>,
    /// The head that was merged.
    head: Kept,
    /// The files that the workspace should contain.
    target: Kept,
    /// The state that the workspace and the project have in common after the
    /// refresh.
    base: Kept,
    /// The view of the workspace's agent.
    view: View,
}

impl Workspaces {
    /// Merges the head of its project into a workspace, and retries while other
    /// requests change the workspace.
    pub(crate) async fn refresh(
        self: &Arc<Self>,
        who: &Principal,
        id: &WorkspaceId,
        wish: api::Refresh,
        on_conflict: OnConflict,
    ) -> Result<api::Refreshed> {
        who.needs(Scope::ProjectsWrite)?;
        for _ in 0..ATTEMPTS {
            let row = self.visible(who, id).await?;
            let app = self.clone();
            let (who, dry_run) = (who.clone(), wish.dry_run);
            // A separate task, so that the refresh is completed even if the
            // client disconnects.
            let tenant = row.tenant;
            let refreshing = async move { app.refresh_row(&who, &row, dry_run, on_conflict).await };
            let done = self.stores.spawn(tenant, refreshing);
            match done.await.map_err(|error| Failure::internal(&error))?? {
                Some(refreshed) => return Ok(refreshed),
                None => continue,
            }
        }
        let message = "the workspace or its project changed during every attempt to refresh it";
        Err(Failure::new(elevo_core::ErrorCode::WorkspaceBusy, message).retry_after(1))
    }

    /// Refreshes a workspace once. Returns `None` if another request changed the
    /// workspace at the same time.
    pub(crate) async fn refresh_row(
        self: &Arc<Self>,
        who: &Principal,
        row: &Workspace,
        dry_run: bool,
        on_conflict: OnConflict,
    ) -> Result<Option<api::Refreshed>> {
        let project = self.projects.of_workspace(row).await?;
        if row.read_only {
            return self.follow(who, row, &project, dry_run).await;
        }
        let held = self.hold_workspace(row).await?;
        // A merge may have moved the base before the lock was acquired.
        let row = &self.visible(who, &row.id).await?;
        if dry_run {
            let taken = self.snapshot_held(who, row).await?;
            let brought = self.bring(who, row, &project, taken.id, on_conflict);
            return Ok(Some(refreshed(&brought.await?)));
        }
        let frozen = match &held.sandbox {
            Some(sandbox) => self.freezer.frozen(sandbox),
            None => self.freezer.frozen_nothing(),
        };
        let id = row.id.clone();
        let info = own_info(who, format!("refresh of {}", row.id));
        let handle = tokio::runtime::Handle::current();
        let (app, who, copy) = (self.clone(), who.clone(), row.clone());
        let brought = self.stores.with(row.tenant, move |workspaces| {
            let mut brought = None;
            // The processes are frozen from the snapshot until the new files are
            // written, so the merge runs in the callback.
            workspaces.refresh::<Failure>(&id, info, &frozen, &Progress::new(), |taken| {
                let made = app.bring_and_note(&who, &copy, &project, taken, on_conflict);
                brought = handle.block_on(made)?;
                Ok(brought.as_ref().map(|made| made.target.id))
            })?;
            Ok(brought)
        });
        let Some(mut brought) = brought.await? else {
            return Ok(None);
        };
        let change = WorkspaceChange {
            base: Some(brought.base.id),
            synced: Some(brought.head.id),
            unsettled: brought.last.take(),
            ..WorkspaceChange::default()
        };
        let moved = self.change_expected(row, change).await?;
        Ok(moved.then(|| refreshed(&brought)))
    }

    /// Computes the files that a workspace should contain, and records the
    /// conflicts that they will have. Returns `None` if the row of the workspace
    /// has changed.
    async fn bring_and_note(
        &self,
        who: &Principal,
        row: &Workspace,
        project: &Project,
        taken: SnapshotId,
        on_conflict: OnConflict,
    ) -> Result<Option<Brought>> {
        let mut brought = self.bring(who, row, project, taken, on_conflict).await?;
        let Some(first) = brought.first.take() else {
            return Ok(Some(brought));
        };
        let change = WorkspaceChange {
            unsettled: Some(first),
            ..WorkspaceChange::default()
        };
        let is_noted = self.change_expected(row, change).await?;
        Ok(is_noted.then_some(brought))
    }

    /// Refreshes a read-only workspace to the head, without a merge.
    async fn follow(
        &self,
        who: &Principal,
        row: &Workspace,
        project: &Project,
        dry_run: bool,
    ) -> Result<Option<api::Refreshed>> {
        let policy = self.projects.compiled_policy(project).await?;
        let view = policy.for_agent(row.agent.as_deref());
        let head = self.snapshots.keep_head(project).await?;
        let kept = self.projects.visible_part(who, &head, &view).await?;
        let (head, target) = (head.id, kept.id);
        let done = api::Refreshed {
            head: head.to_string(),
            changed: Vec::new(),
            changed_count: u64::from(target != row.base),
            conflicts: Vec::new(),
            marked: Vec::new(),
        };
        if dry_run || (target == row.base && head == row.synced) {
            return Ok(Some(done));
        }
        let _held = self.hold_workspace(row).await?;
        let id = row.id.clone();
        let followed = self.stores.with(row.tenant, move |workspaces| {
            Ok(workspaces.follow(&id, target, &Progress::new())?)
        });
        followed.await?;
        let change = WorkspaceChange {
            base: Some(target),
            synced: Some(head),
            ..WorkspaceChange::default()
        };
        let moved = self.change_expected(row, change).await?;
        Ok(moved.then_some(done))
    }

    /// Changes the row of a workspace. Returns false, and changes nothing, if the
    /// row has changed since `row` was read.
    async fn change_expected(&self, row: &Workspace, change: WorkspaceChange) -> Result<bool> {
        let change = WorkspaceChange {
            expected: Some((row.base, row.merges)),
            generation: Some(row.generation),
            ..change
        };
        let changed = self
            .catalog
            .change_workspace(row.tenant, &row.id, &change, clock::now());
        match changed.await {
            Ok(_) => Ok(true),
            // `Dropped`: the head has moved, and retention has dropped the
            // version that was merged. The next attempt merges the new head.
            Err(elevo_catalog::Error::Changed { .. } | elevo_catalog::Error::Dropped { .. }) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Merges the visible part of the head into a snapshot of a workspace, and
    /// stores the result as snapshots. Does not write to the workspace.
    async fn bring(
        &self,
        who: &Principal,
        row: &Workspace,
        project: &Project,
        taken: SnapshotId,
        on_conflict: OnConflict,
    ) -> Result<Brought> {
        let policy = self.projects.compiled_policy(project).await?;
        let view = policy.for_agent(row.agent.as_deref());
        let head = self.snapshots.keep_head(project).await?;
        let theirs = self.projects.visible_part(who, &head, &view).await?;
        let repository = self.stores.repository(row.tenant);
        let (taken, before) = (
            self.snapshots.keep(row.tenant, taken),
            self.snapshots.keep(row.tenant, row.base),
        );
        let (taken, before) = tokio::try_join!(taken, before)?;
        // The agent may read everything in the visible part of the head, so no
        // rule of the policy applies to this merge.
        let everything = policies::compile(&Policy::default())?;
        let rules = Rules {
            view: &everything.for_agent(None),
            policy: &everything,
            decided: true,
            careful: true,
            instead: None,
            precedence: &LaterFirst,
            unsettled: &BTreeSet::new(),
        };
        let sides = Sides {
            base: &before.snapshot,
            ours: &StateTree::open(&repository, taken.id).await?,
            theirs: &theirs.snapshot,
        };
        let mut merge = merge_trees(&sides, &rules, &self.drivers, &Limits::default()).await?;
        let mut notes = Notes::new(self.catalog.unsettled(row.tenant, &row.id).await?);
        if on_conflict == OnConflict::Leave {
            let theirs = StateTree::at(&repository, sides.theirs);
            notes.leave(&mut merge, &theirs).await?;
        }
        let (marked, first) = (notes.marked.clone(), notes.first());
        let last = notes.last(sides.ours, &merge).await?;
        let told = |what: &str| CommitInfo {
            parents: vec![taken.id],
            author: "elevo".into(),
            message: format!("{what} of {}", row.id),
            created: clock::now(),
            labels: BTreeMap::new(),
            reference: None,
        };
        let target = match merge.tree.tree().await? == sides.ours.tree().await? {
            true => taken.clone(),
            false => committed(&merge.tree.clone(), told("refresh")).await?,
        };
        let base = match merge.agreed.tree().await? == sides.theirs.tree {
            true => theirs,
            false => committed(&merge.agreed.clone(), told("base")).await?,
        };
        Ok(Brought {
            merge,
            marked,
            first,
            last,
            head,
            target,
            base,
            view,
        })
    }
}

fn refreshed(brought: &Brought) -> api::Refreshed {
    let merge = &brought.merge;
    let changed = merge.landed.iter().take(LISTED);
    api::Refreshed {
        head: brought.head.id.to_string(),
        changed: changed.map(|landed| out::path_text(&landed.path)).collect(),
        changed_count: merge.landed.len() as u64,
        conflicts: out::conflicts(&brought.view, merge, LISTED)
            .into_iter()
            .map(seen_from_the_project)
            .collect(),
        marked: brought.marked.iter().map(out::path_text).collect(),
    }
}

/// Swaps the sides of a conflict. A refresh merges the head into the workspace,
/// so its side `ours` is the workspace; in the API, `ours` is always the head.
fn seen_from_the_project(mut conflict: api::Conflict) -> api::Conflict {
    std::mem::swap(
        &mut conflict.project_version,
        &mut conflict.workspace_version,
    );
    for hunk in &mut conflict.hunks {
        std::mem::swap(&mut hunk.project, &mut hunk.workspace);
        if let api::HunkPlace::Lines(lines) = &mut hunk.place {
            std::mem::swap(&mut lines.project, &mut lines.workspace);
        }
    }
    let kind = match conflict.kind.as_str() {
        "removed-in-project" => "removed-in-workspace",
        "removed-in-workspace" => "removed-in-project",
        kind => kind,
    };
    conflict.kind = kind.to_owned();
    let suggestion = match conflict.suggestion.as_str() {
        "project" => "workspace",
        "workspace" => "project",
        suggestion => suggestion,
    };
    conflict.suggestion = suggestion.to_owned();
    conflict
}
