//! Retries of requests that have landed, if the server stopped before it stored
//! their response. The history of the project contains most of that response.

use elevo_api as api;
use elevo_catalog::{LandedStep, MAX_PAGE, Project};

use crate::app::projects::landing::Landings;
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
        let Some(request) = once.landing().filter(|_| once.is_again()) else {
            return Ok(None);
        };
        let landed = self
            .catalog
            .landing_by_request(project.tenant, &project.id, &request);
        match landed.await? {
            Some(landed) => self.result_of(project, landed).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads the result of a landed step from the history. The lists of
    /// conflicts and refused changes are not stored, only their numbers.
    async fn result_of(&self, project: &Project, landed: LandedStep) -> Result<api::MergeResult> {
        let mut result = out::nothing(project, landed.head);
        result.step = landed.sequence;
        let Some(sequence) = landed.sequence else {
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
