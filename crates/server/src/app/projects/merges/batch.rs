//! Merges several workspaces into their project: one after another, or all in one
//! landing.

use std::collections::HashSet;
use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{Project, Workspace};
use elevo_core::ErrorCode;

use crate::app::access::principal::Principal;
use crate::app::projects::merges::{ATTEMPTS, Merges};
use crate::app::projects::project_ref::ProjectRef;
use crate::app::requests::once::Once;
use crate::failure::{Failure, Result, short};

/// Maximum workspaces of one request.
const MOST: usize = 50;

/// A request to merge several workspaces of one project.
struct Batch<'a> {
    who: &'a Principal,
    project: Project,
    wish: api::Merge,
    once: Once,
}

impl Batch<'_> {
    /// Returns the name of the request in the history, for one of its workspaces.
    fn request(&self, number: usize) -> Option<String> {
        let request = self.once.landing().filter(|_| !self.wish.dry_run);
        request.map(|request| format!("{request}-{number}"))
    }
}

impl Merges {
    /// Lands the changes of several workspaces of a project.
    pub(crate) async fn merge_all(
        self: &Arc<Self>,
        who: &Principal,
        id: &ProjectRef,
        wish: api::MergeWorkspaces,
        once: Once,
    ) -> Result<api::WorkspacesMerged> {
        who.needs(Scope::ProjectsWrite)?;
        if !(1..=MOST).contains(&wish.workspaces.len()) {
            let message = format!("`workspaces` must have 1 to {MOST} entries");
            return Err(Failure::invalid(message));
        }
        let project = self.projects.find(who, id).await?;
        self.landings
            .check_override(&project, wish.strategy)
            .await?;
        if wish.dry_run {
            once.rehearsed();
        }
        let mut found = Vec::new();
        for text in &wish.workspaces {
            let row = self.workspace_in(who, &project, text).await;
            found.push((text.as_str(), row));
        }
        let mut seen = HashSet::new();
        let mut rows = found.iter().filter_map(|(_, row)| row.as_ref().ok());
        if let Some(twice) = rows.find(|row| !seen.insert(row.id.clone())) {
            let message = format!("`workspaces` has `{}` more than once", twice.id);
            return Err(Failure::invalid(message));
        }
        let batch = Batch {
            who,
            project,
            wish: api::Merge {
                dry_run: wish.dry_run,
                atomic: wish.atomic,
                message: wish.message,
                strategy: wish.strategy,
                renames: wish.renames,
            },
            once,
        };
        match (wish.atomic, wish.dry_run) {
            (true, _) => {
                let rows = found.into_iter().map(|(text, row)| named(text, row));
                let rows = rows.collect::<Result<Vec<_>>>()?;
                self.merge_together(&batch, &rows).await
            }
            (false, true) => self.rehearse_each(&batch, found).await,
            (false, false) => self.merge_each(&batch, found).await,
        }
    }

    /// Lands all workspaces in one transaction, or none.
    async fn merge_together(
        self: &Arc<Self>,
        batch: &Batch<'_>,
        rows: &[Workspace],
    ) -> Result<api::WorkspacesMerged> {
        if let Some(results) = self.landed_together(batch, rows).await? {
            return Ok(merged(batch.who, rows, results));
        }
        let mut attempts = 1..ATTEMPTS;
        loop {
            let mut jobs = Vec::new();
            for (number, row) in rows.iter().enumerate() {
                let request = batch.request(number);
                let job = self.job_of(batch.who, row, &batch.wish, request).await;
                jobs.push(named(&row.id, job)?);
            }
            let settled = match batch.wish.dry_run {
                true => {
                    let rehearsed = self.landings.rehearse_all(&batch.project, &jobs).await?;
                    rehearsed.into_iter().collect()
                }
                false => self.landings.settle_all(&batch.project, jobs).await,
            };
            match settled {
                // The base of a workspace has moved since its files were read, so
                // the next attempt reads all of them again.
                Err(failure) if failure.code == ErrorCode::WorkspaceBusy => {
                    attempts.next().ok_or(failure)?;
                }
                settled => return Ok(merged(batch.who, rows, settled?)),
            }
        }
    }

    /// Returns the results of an earlier attempt, if that attempt has landed.
    async fn landed_together(
        &self,
        batch: &Batch<'_>,
        rows: &[Workspace],
    ) -> Result<Option<Vec<api::MergeResult>>> {
        let mut results = Vec::new();
        for number in 0..rows.len() {
            match self.landed_one(batch, number).await? {
                Some(result) => results.push(result),
                // The steps of the request are in one transaction, so if one is
                // missing, all are.
                None => return Ok(None),
            }
        }
        Ok(Some(results))
    }

    async fn landed_one(
        &self,
        batch: &Batch<'_>,
        number: usize,
    ) -> Result<Option<api::MergeResult>> {
        match batch.request(number).filter(|_| batch.once.is_again()) {
            Some(request) => self.landings.landed_by(&batch.project, &request).await,
            None => Ok(None),
        }
    }

    /// Merges the workspaces one after another, and continues after a failure.
    async fn merge_each(
        self: &Arc<Self>,
        batch: &Batch<'_>,
        found: Vec<(&str, Result<Workspace>)>,
    ) -> Result<api::WorkspacesMerged> {
        let mut done = api::WorkspacesMerged::default();
        for (number, (text, row)) in found.into_iter().enumerate() {
            let row = match row {
                Ok(row) => row,
                Err(failure) => {
                    done.failed.push(failed(short(text), failure));
                    continue;
                }
            };
            let result = match self.landed_one(batch, number).await? {
                Some(landed) => Ok(landed),
                None => {
                    let request = batch.request(number);
                    self.merge_row(batch.who, &row, &batch.wish, request, false)
                        .await
                }
            };
            match result {
                Ok(result) => done.succeeded.push(one_merged(batch.who, &row, result)),
                Err(failure) => done.failed.push(failed(short(text), failure)),
            }
        }
        Ok(done)
    }

    /// Computes the results of all merges, each on the results before it.
    async fn rehearse_each(
        &self,
        batch: &Batch<'_>,
        found: Vec<(&str, Result<Workspace>)>,
    ) -> Result<api::WorkspacesMerged> {
        let mut done = api::WorkspacesMerged::default();
        let (mut rows, mut jobs) = (Vec::new(), Vec::new());
        for (text, row) in found {
            let job = match row {
                Ok(row) => {
                    let job = self.job_of(batch.who, &row, &batch.wish, None).await;
                    job.map(|job| (row, job))
                }
                Err(failure) => Err(failure),
            };
            match job {
                Ok((row, job)) => {
                    rows.push(row);
                    jobs.push(job);
                }
                Err(failure) => done.failed.push(failed(short(text), failure)),
            }
        }
        let results = self.landings.rehearse_all(&batch.project, &jobs).await?;
        for (row, result) in rows.iter().zip(results) {
            match result {
                Ok(result) => done.succeeded.push(one_merged(batch.who, row, result)),
                Err(failure) => done.failed.push(failed(row.id.to_string(), failure)),
            }
        }
        Ok(done)
    }

    /// Returns the workspace that an id, or a name in the project, means.
    async fn workspace_in(
        &self,
        who: &Principal,
        project: &Project,
        text: &str,
    ) -> Result<Workspace> {
        let id = self.names.workspace_on(who, &project.id, text).await?;
        let row = self.workspaces.visible(who, &id).await?;
        self.workspaces.check_here(&row)?;
        match row.project.as_ref() == Some(&project.id) {
            true => Ok(row),
            false => Err(Failure::invalid(format!(
                "workspace `{}` does not belong to project `{}`",
                row.id, project.name
            ))),
        }
    }
}

fn failed(id: String, failure: Failure) -> api::Failed {
    api::Failed {
        id,
        error: failure.body(""),
    }
}

/// Adds the workspace to a failure.
fn named<T>(workspace: &str, result: Result<T>) -> Result<T> {
    result.map_err(|failure| failure.about("workspace", short(workspace)))
}

fn one_merged(who: &Principal, row: &Workspace, result: api::MergeResult) -> api::WorkspaceMerged {
    api::WorkspaceMerged {
        workspace: row.id.to_string(),
        result: api::MergeResult {
            may_decide: who.may_decide(row.agent.as_ref()),
            ..result
        },
    }
}

fn merged(
    who: &Principal,
    rows: &[Workspace],
    results: Vec<api::MergeResult>,
) -> api::WorkspacesMerged {
    let merged = rows.iter().zip(results);
    let merged = merged.map(|(row, result)| one_merged(who, row, result));
    api::WorkspacesMerged {
        succeeded: merged.collect(),
        failed: Vec::new(),
    }
}
