//! Retention: drops the versions that a project does not keep. The history keeps
//! the steps of dropped versions, but garbage collection deletes their content.

use std::collections::HashSet;

use elevo_api as api;
use elevo_catalog::{
    Error as CatalogError, MAX_PAGE, Project, ProjectQuery, Retention, UnkeptQuery,
};
use elevo_core::{TenantId, Timestamp};
use elevo_objects::SnapshotId;
use elevo_workspace::needed_snapshots;

use crate::app::projects::Projects;
use crate::failure::{Failure, Result};
use crate::platform::clock;

pub(crate) fn read(wish: api::Retention) -> Result<Retention> {
    match wish {
        api::Retention::Last { count: 0 } => Err(Failure::invalid("`count` must be at least 1")),
        api::Retention::Daily { days: 0 } => Err(Failure::invalid("`days` must be at least 1")),
        api::Retention::All {} => Ok(Retention::All),
        api::Retention::Last { count } => Ok(Retention::Last(count)),
        api::Retention::Daily { days } => Ok(Retention::Daily(days)),
        api::Retention::Named {} => Ok(Retention::Named),
    }
}

pub(crate) const fn out(retention: Retention) -> api::Retention {
    match retention {
        Retention::All => api::Retention::All {},
        Retention::Last(count) => api::Retention::Last { count },
        Retention::Daily(days) => api::Retention::Daily { days },
        Retention::Named => api::Retention::Named {},
    }
}

/// The options for dropping versions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropping {
    /// Versions that landed at this time or later are kept.
    pub(crate) since: Timestamp,
    /// Computes which versions would be dropped, without dropping them.
    pub(crate) dry_run: bool,
}

/// Versions that were dropped, or that a dry run would drop.
#[derive(Debug, Default)]
pub(crate) struct DroppedVersions {
    pub(crate) count: u64,
    /// In a dry run, the versions that would be dropped; otherwise empty.
    pub(crate) would_be: HashSet<SnapshotId>,
}

impl Projects {
    /// Drops the versions that the retention of a tenant's projects does not
    /// keep.
    pub(crate) async fn drop_versions(
        &self,
        tenant: TenantId,
        dropping: Dropping,
    ) -> Result<DroppedVersions> {
        let mut dropped = DroppedVersions::default();
        let projects = self.with_retention(tenant).await?;
        if projects.is_empty() {
            return Ok(dropped);
        }
        let directory = self.stores.directory(tenant);
        let looking = move || Ok(needed_snapshots(&directory)?);
        let in_use = self.stores.blocking(tenant, looking).await?;
        let in_use = in_use.into_iter().collect();
        for project in projects {
            match self
                .drop_from(&project, dropping, &in_use, &mut dropped)
                .await
            {
                // Another request has changed the retention of the project or is
                // deleting the project. The next collection handles it.
                Err(CatalogError::Changed { .. })
                | Err(CatalogError::BeingRemoved { .. })
                | Err(CatalogError::NotFound { .. }) => {}
                done => done?,
            }
        }
        Ok(dropped)
    }

    /// Returns the projects of a tenant that do not keep all versions.
    async fn with_retention(&self, tenant: TenantId) -> Result<Vec<Project>> {
        let mut query = ProjectQuery {
            tenant: Some(tenant),
            removing: Some(false),
            ..ProjectQuery::default()
        };
        let mut found = Vec::new();
        loop {
            let page = self.catalog.projects(&query).await?;
            query.after = page.items.last().map(Project::position);
            let is_last = page.items.len() < query.limit as usize;
            let keeps_all = |project: &Project| project.retention == Retention::All;
            found.extend(page.items.into_iter().filter(|one| !keeps_all(one)));
            if is_last {
                return Ok(found);
            }
        }
    }

    async fn drop_from(
        &self,
        project: &Project,
        dropping: Dropping,
        in_use: &HashSet<SnapshotId>,
        dropped: &mut DroppedVersions,
    ) -> Result<(), CatalogError> {
        let mut query = UnkeptQuery {
            now: clock::now(),
            since: dropping.since,
            after: None,
            limit: MAX_PAGE,
        };
        loop {
            let page = self.catalog.unkept_versions(project, &query).await?;
            let mut unkept = page.snapshots;
            // Versions in use are not dropped: a workspace on this machine may
            // use the layer of a version that its row no longer refers to.
            unkept.retain(|id| !in_use.contains(id));
            if dropping.dry_run {
                let needed = self.catalog.needed_versions(project).await?;
                unkept.retain(|id| !needed.contains(id));
                dropped.would_be.extend(unkept);
                dropped.count = dropped.would_be.len() as u64;
            } else if !unkept.is_empty() {
                let now = query.now;
                let gone = self.catalog.drop_versions(project, &unkept, now).await?;
                dropped.count += gone.len() as u64;
            }
            query.after = match page.next {
                Some(next) => Some(next),
                None => return Ok(()),
            };
        }
    }
}
