//! Merges several jobs, each into the result of the jobs before it.

use elevo_catalog::Project;
use elevo_core::ErrorCode;
use elevo_merge::TreeMerge;
use elevo_objects::SnapshotId;

use crate::app::projects::landing::job::Job;
use crate::app::projects::landing::prepare::{LandingBase, Prepared, Preparer};
use crate::failure::{Failure, Result};

impl Preparer {
    /// Merges jobs into the head for a dry run, each into the result of the jobs
    /// before it. Returns the head and the merges.
    pub(crate) async fn rehearse(
        &self,
        project: &Project,
        jobs: &[Job],
    ) -> Result<(SnapshotId, Vec<Result<TreeMerge>>)> {
        let mut base = self.base(project.tenant, &project.id).await?;
        let mut merges = Vec::new();
        for job in jobs {
            let merged = self.rehearse_one(&base, job).await;
            if let Ok(merge) = &merged {
                base.tree = merge.tree.clone();
            }
            merges.push(merged);
        }
        Ok((base.head, merges))
    }

    async fn rehearse_one(&self, base: &LandingBase, job: &Job) -> Result<TreeMerge> {
        let workspace = self.workspace_of(base, job).await?;
        let done = self.merge(base, job, workspace.as_ref()).await?;
        Ok(done.merge)
    }

    /// Prepares the jobs of one request, each on the result of the jobs before
    /// it, and moves `base` to the last result. `base` does not move if one of
    /// the jobs fails.
    pub(crate) async fn prepare_all(
        &self,
        base: &mut LandingBase,
        jobs: &[Job],
    ) -> Result<Vec<Prepared>> {
        let before = (base.head, base.tree.clone());
        let mut prepared = Vec::new();
        for job in jobs {
            match self.prepare(base, job).await {
                Ok(done) => {
                    // The next job is merged into this result, because its step
                    // follows this one in the history.
                    if done.step.snapshot != base.head {
                        base.head = done.step.snapshot;
                        base.tree = done.merge.tree.clone();
                    }
                    prepared.push(done);
                }
                Err(failure) => {
                    (base.head, base.tree) = before;
                    return Err(match (&job.workspace, jobs.len()) {
                        (Some(workspace), 2..) => failure.about("workspace", workspace.as_str()),
                        _ => failure,
                    });
                }
            }
        }
        let changes = prepared.iter().map(|done| done.step.changes.len());
        if changes.sum::<usize>() > elevo_catalog::MAX_CHANGES {
            (base.head, base.tree) = before;
            let message = "the workspaces change too many paths for one landing";
            let failure = Failure::new(ErrorCode::TooManyChanges, message);
            return Err(failure.about("limit", elevo_catalog::MAX_CHANGES));
        }
        Ok(prepared)
    }
}
