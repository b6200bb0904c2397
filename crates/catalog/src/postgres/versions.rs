//! Statements on the history of paths.

use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId, TreePath};
use sqlx::{Postgres, QueryBuilder};

use super::{PostgresCatalog, failure, projects};
use crate::bounds;
use crate::catalog::Versions;
use crate::error::Result;
use crate::records::FileVersion;
use crate::sqlite::values::sequence_bound;
use crate::stored;

macro_rules! columns {
    () => {
        "versions.sequence, path, versions.kind, origin, entry_before, entry_after, files, \
         algorithm, snapshot, agent, workspace, created"
    };
}

pub(super) const SELECT_IN: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM versions JOIN landings USING (project, sequence) WHERE project = ",
    projects::own!(),
    " AND sequence = $3 AND path >= $4 ORDER BY path LIMIT $5"
);

/// Looks into each landing once, newest first, until it has found enough
/// landings with a change below the directory.
pub(super) const SELECT_BELOW: &str = concat!(
    "WITH found (sequence, path) AS (SELECT sequence, first.path FROM landings CROSS JOIN LATERAL (SELECT path FROM versions \
     WHERE project = $1 AND versions.sequence = landings.sequence AND path >= $3 \
     AND ($4::bytea IS NULL OR path < $4) ORDER BY path LIMIT 1) first \
     WHERE project = (SELECT id FROM projects WHERE tenant = $6 AND id = $1) \
     AND sequence < $2 \
     ORDER BY sequence DESC LIMIT $5) SELECT ",
    columns!(),
    " FROM found JOIN versions USING (sequence, path) \
      JOIN landings USING (project, sequence) WHERE project = $1 \
      ORDER BY found.sequence DESC"
);

#[async_trait]
impl Versions for PostgresCatalog {
    async fn versions_of(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        path: &TreePath,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<FileVersion>> {
        bounds::limit(limit)?;
        let paths = stored::path_and_above(path);
        let mut select = select_of(&paths, tenant, project, before, limit);
        let found = select.build_query_as().fetch_all(self.database.pool());
        found.await.map_err(failure::of)
    }

    async fn versions_below(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        directory: &TreePath,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<FileVersion>> {
        bounds::limit(limit)?;
        let (first, end) = stored::paths_below(directory);
        sqlx::query_as(SELECT_BELOW)
            .bind(project.as_str())
            .bind(sequence_bound(before))
            .bind(first)
            .bind(end)
            .bind(i64::from(limit))
            .bind(&tenant.as_bytes()[..])
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn last_version(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        path: &TreePath,
    ) -> Result<Option<FileVersion>> {
        let last = self.versions_of(tenant, project, path, None, 1).await?;
        Ok(last.into_iter().next())
    }

    async fn versions_in(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        sequence: u64,
        after: Option<&TreePath>,
        limit: u32,
    ) -> Result<Vec<FileVersion>> {
        bounds::limit(limit)?;
        sqlx::query_as(SELECT_IN)
            .bind(&tenant.as_bytes()[..])
            .bind(project.as_str())
            .bind(sequence_bound(Some(sequence)))
            .bind(stored::path_after(after))
            .bind(i64::from(limit))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }
}

/// Reads at most `limit` entries of the index for each path. If a landing changed
/// several of the paths, the greatest one is selected, which is also the longest:
/// each path is a prefix of the next.
pub(super) fn select_of(
    paths: &[Vec<u8>],
    tenant: TenantId,
    project: &ProjectId,
    before: Option<u64>,
    limit: u32,
) -> QueryBuilder<Postgres> {
    let mut select = QueryBuilder::new("WITH own (id) AS (SELECT id FROM projects WHERE tenant = ");
    select.push_bind(tenant.as_bytes().to_vec());
    select.push(" AND id = ").push_bind(project.to_string());
    select.push("), asked (path, every) AS (");
    select.push_values(paths.iter().enumerate(), |mut row, (n, path)| {
        row.push_bind(path.clone())
            .push(if n == 0 { "true" } else { "false" });
    });
    select.push(
        "), found (sequence, path) AS (SELECT one.sequence, (array_agg(one.path ORDER BY one.path DESC))[1] \
         FROM asked JOIN versions one ON one.path = asked.path AND one.sequence IN (\
         SELECT sequence FROM versions other WHERE other.path = asked.path \
         AND (asked.every OR other.whole) AND other.sequence < ",
    );
    select.push_bind(sequence_bound(before));
    select.push(" AND other.project = (SELECT id FROM own) ORDER BY other.sequence DESC LIMIT ");
    select.push_bind(i64::from(limit));
    select.push(
        ") WHERE one.project = (SELECT id FROM own) \
         GROUP BY one.sequence ORDER BY one.sequence DESC LIMIT ",
    );
    select.push_bind(i64::from(limit));
    select.push(concat!(
        ") SELECT ",
        columns!(),
        " FROM found JOIN versions USING (sequence, path) \
          JOIN landings USING (project, sequence) WHERE project = (SELECT id FROM own) \
          ORDER BY found.sequence DESC"
    ));
    select
}
