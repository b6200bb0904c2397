//! Bringing workspaces up to date with their project.

use std::collections::BTreeMap;
use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{Project, Workspace, WorkspaceChange};
use elevo_engine::{CommitInfo, Progress, StateTree};
use elevo_merge::{LaterFirst, Limits, Rules, Sides, TreeMerge, merge_trees};
use elevo_objects::SnapshotId;
use elevo_policy::Policy;

use super::applying::committed;
use super::{out, policies};
use crate::app::files::info;
use crate::app::kept::Kept;
use crate::app::{App, Principal, parts};
use crate::clock;
use crate::failure::{Failure, Result};

/// How often a refresh begins anew because the workspace was merged meanwhile.
const ATTEMPTS: usize = 5;

/// As many paths are named in an answer.
const LISTED: usize = 1000;

/// What a refresh comes to.
struct Brought {
    merge: TreeMerge,
    /// The head that it was made with.
    head: Kept,
    /// What the workspace should hold.
    target: Kept,
    /// What it and the project agree on then.
    base: Kept,
}

impl App {
    /// Brings what others have merged into a workspace. Where both changed the
    /// same, the workspace keeps its own, and its next merge settles it.
    pub(crate) async fn refresh_workspace(
        self: &Arc<Self>,
        who: &Principal,
        id: &str,
        wish: api::Refresh,
    ) -> Result<api::Refreshed> {
        who.needs(Scope::ProjectsWrite)?;
        for _ in 0..ATTEMPTS {
            let row = self.visible_workspace(who, id).await?;
            let app = self.clone();
            let (who, dry_run) = (who.clone(), wish.dry_run);
            // Goes on even if nobody waits for it any more.
            let done = tokio::spawn(async move { app.refresh_row(&who, &row, dry_run).await });
            match done.await.map_err(|error| Failure::internal(&error))?? {
                Some(refreshed) => return Ok(refreshed),
                None => continue,
            }
        }
        let message = "the workspace is merged faster than it can be refreshed";
        Err(Failure::new(elevo_core::ErrorCode::WorkspaceBusy, message).retry_after(1))
    }

    /// `None` if the workspace was changed by somebody else meanwhile.
    pub(super) async fn refresh_row(
        self: &Arc<Self>,
        who: &Principal,
        row: &Workspace,
        dry_run: bool,
    ) -> Result<Option<api::Refreshed>> {
        let project = self.project_of_row(row).await?;
        if row.read_only {
            return self.follow(who, row, &project, dry_run).await;
        }
        if dry_run {
            let taken = self.snapshot_of_workspace(who, row).await?;
            let brought = self.bring(who, row, &project, taken.id).await?;
            return Ok(Some(refreshed(&brought)));
        }
        let _held = self.hold(&row.id).await;
        let frozen = match self.catalog.sandbox(row.tenant, &row.id).await? {
            Some(sandbox) => self.frozen(&sandbox),
            None => self.frozen_nothing(),
        };
        let id = parts::workspace_id(&row.id)?;
        let info = info(who, format!("refresh of {}", row.id));
        let handle = tokio::runtime::Handle::current();
        let (app, who, copy) = (self.clone(), who.clone(), row.clone());
        let brought = self.homes.with(row.tenant, move |workspaces| {
            let mut brought = None;
            workspaces.refresh::<Failure>(&id, info, &frozen, &Progress::new(), |taken| {
                let made = handle.block_on(app.bring(&who, &copy, &project, taken))?;
                let target = made.target.id;
                brought = Some(made);
                Ok(Some(target))
            })?;
            Ok(brought)
        });
        let Some(brought) = brought.await? else {
            return Ok(None);
        };
        match self
            .move_base(row, brought.base.id, brought.head.id)
            .await?
        {
            true => Ok(Some(refreshed(&brought))),
            false => Ok(None),
        }
    }

    /// Lets a workspace that is only read show the newest head.
    async fn follow(
        &self,
        who: &Principal,
        row: &Workspace,
        project: &Project,
        dry_run: bool,
    ) -> Result<Option<api::Refreshed>> {
        let policy = self.policy_of(project).await?;
        let view = policy.for_agent(row.agent.as_deref());
        let head = self.keep_head(project).await?;
        let kept = self.visible_part(who, &head, &view).await?;
        let (head, target) = (head.id, kept.id);
        let done = api::Refreshed {
            head: head.to_string(),
            changed: Vec::new(),
            changed_count: u64::from(target != row.base),
            conflicts: Vec::new(),
        };
        if dry_run || (target == row.base && head == row.synced) {
            return Ok(Some(done));
        }
        let _held = self.hold(&row.id).await;
        let id = parts::workspace_id(&row.id)?;
        let followed = self.homes.with(row.tenant, move |workspaces| {
            Ok(workspaces.follow(&id, target, &Progress::new())?)
        });
        followed.await?;
        let moved = self.move_base(row, target, head).await?;
        Ok(moved.then_some(done))
    }

    async fn move_base(
        &self,
        row: &Workspace,
        base: SnapshotId,
        synced: SnapshotId,
    ) -> Result<bool> {
        let change = WorkspaceChange {
            expected: Some((row.base, row.merges)),
            base: Some(base),
            synced: Some(synced),
            ..WorkspaceChange::default()
        };
        let changed = self
            .catalog
            .change_workspace(row.tenant, &row.id, &change, clock::now());
        match changed.await {
            Ok(_) => Ok(true),
            Err(elevo_catalog::Error::Changed { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Merges the head into what a workspace holds, and stores the result.
    async fn bring(
        &self,
        who: &Principal,
        row: &Workspace,
        project: &Project,
        taken: SnapshotId,
    ) -> Result<Brought> {
        let policy = self.policy_of(project).await?;
        let view = policy.for_agent(row.agent.as_deref());
        let head = self.keep_head(project).await?;
        let theirs = self.visible_part(who, &head, &view).await?;
        let repository = self.homes.repository(row.tenant);
        let (taken, before) = (
            self.keep(row.tenant, taken),
            self.keep(row.tenant, row.base),
        );
        let (taken, before) = tokio::try_join!(taken, before)?;
        // What the head has, everybody may have who may see it.
        let everything = policies::compile(&Policy::default())?;
        let rules = Rules {
            view: &everything.for_agent(None),
            policy: &everything,
            decided: true,
            careful: true,
            instead: None,
            precedence: &LaterFirst,
        };
        let sides = Sides {
            base: &repository.snapshot(before.id).await?,
            ours: &StateTree::open(&repository, taken.id).await?,
            theirs: &repository.snapshot(theirs.id).await?,
        };
        let merge = merge_trees(&sides, &rules, &self.drivers, &Limits::default()).await?;
        let told = |what: &str| CommitInfo {
            parents: vec![taken.id],
            author: "elevo".into(),
            message: format!("{what} of {}", row.id),
            created: clock::now(),
            labels: BTreeMap::new(),
            reference: None,
        };
        let target = match merge.landed.is_empty() {
            true => taken.clone(),
            false => committed(&merge.tree.clone(), told("refresh")).await?,
        };
        let base = match merge.agreed.tree().await? == sides.theirs.tree {
            true => theirs,
            false => committed(&merge.agreed.clone(), told("base")).await?,
        };
        Ok(Brought {
            merge,
            head,
            target,
            base,
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
        conflicts: out::conflicts(merge, LISTED)
            .into_iter()
            .map(seen_from_the_project)
            .collect(),
    }
}

/// A refresh merges the head into the workspace; the API calls the head ours.
fn seen_from_the_project(mut conflict: api::Conflict) -> api::Conflict {
    std::mem::swap(&mut conflict.ours, &mut conflict.theirs);
    for hunk in &mut conflict.hunks {
        std::mem::swap(&mut hunk.ours, &mut hunk.theirs);
        if let api::HunkPlace::Lines { ours, theirs, .. } = &mut hunk.place {
            std::mem::swap(ours, theirs);
        }
    }
    let kind = match conflict.kind.as_str() {
        "removed-by-us" => "removed-by-them",
        "removed-by-them" => "removed-by-us",
        kind => kind,
    };
    conflict.kind = kind.to_owned();
    let suggestion = match conflict.suggestion.as_str() {
        "ours" => "theirs",
        "theirs" => "ours",
        suggestion => suggestion,
    };
    conflict.suggestion = suggestion.to_owned();
    conflict
}
