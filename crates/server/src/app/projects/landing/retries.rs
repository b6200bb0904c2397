//! Retries of requests that have landed, if the response was lost: the server
//! stopped before it stored the response, or the database did not answer. The history of the project contains most of that response.

use std::collections::HashMap;

use elevo_api as api;
use elevo_catalog::{MAX_PAGE, Project};
use elevo_core::{ProjectId, TenantId};
use elevo_objects::SnapshotId;

use crate::app::projects::landing::Landings;
use crate::app::projects::landing::job::{Done, Job};
use crate::app::projects::out;
use crate::app::requests::once::Once;
use crate::failure::Result;

impl Landings {
    /// Returns the result of an earlier attempt of a request, if that attempt
    /// has landed.
    pub(crate) async fn landed_before(
        &self,
        project: &Project,
        once: &Once,
    ) -> Result<Option<api::MergeResult>> {
        match once.landing().filter(|_| once.is_again()) {
            Some(request) => self.landed_by(project, &request).await,
            None => Ok(None),
        }
    }

    /// Returns the result of the step with this request, if there is one.
    pub(crate) async fn landed_by(
        &self,
        project: &Project,
        request: &str,
    ) -> Result<Option<api::MergeResult>> {
        let landed = self
            .catalog
            .landing_by_request(project.tenant, &project.id, request);
        match landed.await? {
            Some(landed) => {
                let result = self.result_of(project, landed.head, landed.sequence);
                result.await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Returns the steps of jobs that an earlier attempt has landed.
    pub(super) async fn landed_already(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        jobs: &[Job],
    ) -> Result<Vec<Done>> {
        let mut all = Vec::new();
        for request in jobs.iter().filter_map(|job| job.request.as_ref()) {
            let landed = self.catalog.landing_by_request(tenant, project, request);
            if let Some(landed) = landed.await? {
                all.push(Done {
                    head: landed.head,
                    sequence: landed.sequence,
                    merge: None,
                    reviews: HashMap::new(),
                });
            }
        }
        Ok(all)
    }

    /// Reads the result of a landed step from the history. The lists of
    /// conflicts and refused changes are not stored, only their numbers.
    pub(super) async fn result_of(
        &self,
        project: &Project,
        head: SnapshotId,
        sequence: Option<u64>,
    ) -> Result<api::MergeResult> {
        let mut result = out::nothing(project, head);
        result.step = sequence;
        let Some(sequence) = sequence else {
            return Ok(result);
        };
        if let Some(entry) = self
            .catalog
            .landing(project.tenant, &project.id, sequence)
            .await?
        {
            let count = |name: &str| entry.counts[name].as_u64().unwrap_or_default();
            result.landed_count = count("landed");
            result.conflict_count = count("held");
            result.refused_count = count("refused");
            result.local = count("local");
        }
        let versions =
            self.catalog
                .versions_in(project.tenant, &project.id, sequence, None, MAX_PAGE);
        let versions = versions.await?;
        result.landed = versions.iter().map(|it| out::changed(&it.change)).collect();
        Ok(result)
    }
}
