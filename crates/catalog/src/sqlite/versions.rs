//! Statements on the history of paths.

use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId, TreePath};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::values::{self, sequence_bound};
use super::{SqliteCatalog, failure, projects};
use crate::bounds;
use crate::catalog::Versions;
use crate::error::Result;
use crate::records::{FileVersion, PathChange};
use crate::stored;

/// Binary logarithm of the maximum number of rows in one statement.
const MOST_ROWS: u32 = 6;

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
    " AND sequence = ? AND path >= ? ORDER BY path LIMIT ?"
);

/// Looks into each landing once, newest first, until it has found enough
/// landings with a change below the directory.
pub(super) const SELECT_BELOW: &str = concat!(
    "WITH found (sequence, path) AS (SELECT sequence, (SELECT min(path) FROM versions \
     WHERE project = ?1 AND versions.sequence = landings.sequence AND path >= ?3 \
     AND (?4 IS NULL OR path < ?4)) AS first FROM landings \
     WHERE project = (SELECT id FROM projects WHERE tenant = ?6 AND id = ?1) \
     AND sequence < ?2 AND first IS NOT NULL \
     ORDER BY sequence DESC LIMIT ?5) SELECT ",
    columns!(),
    " FROM found CROSS JOIN versions USING (sequence, path) \
      CROSS JOIN landings USING (project, sequence) WHERE project = ?1 \
      ORDER BY found.sequence DESC"
);

#[async_trait]
impl Versions for SqliteCatalog {
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
        let found = select.build_query_as().fetch_all(self.database.readers());
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
            .bind(limit)
            .bind(&tenant.as_bytes()[..])
            .fetch_all(self.database.readers())
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
            .bind(limit)
            .fetch_all(self.database.readers())
            .await
            .map_err(failure::of)
    }
}

/// Inserts in batches whose sizes are powers of two: that takes few statements,
/// and few different ones to prepare. Sorts by path, so that neighbours in the
/// index are inserted together.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    project: &ProjectId,
    sequence: u64,
    changes: &[PathChange],
) -> Result<()> {
    let mut changes: Vec<_> = changes.iter().collect();
    changes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    let mut rest = &changes[..];
    while let Some(power) = rest.len().checked_ilog2() {
        let (now, later) = rest.split_at(1 << power.min(MOST_ROWS));
        rest = later;
        insert_some(connection, project, sequence, now).await?;
    }
    Ok(())
}

async fn insert_some(
    connection: &mut SqliteConnection,
    project: &ProjectId,
    sequence: u64,
    changes: &[&PathChange],
) -> Result<()> {
    let mut insert = QueryBuilder::<Sqlite>::new(
        "INSERT INTO versions (project, sequence, path, kind, origin, entry_before, entry_after, \
         files, whole, algorithm) ",
    );
    insert.push_values(changes, |mut row, change| {
        row.push_bind(project.to_string())
            .push_bind(sequence as i64)
            .push_bind(stored::path(&change.path))
            .push_bind(values::to_word(change.kind))
            .push_bind(change.from.as_ref().map(stored::path))
            .push_bind(change.before.as_ref().map(stored::entry))
            .push_bind(change.after.as_ref().map(stored::entry))
            .push_bind(change.files as i64)
            .push_bind(change.is_whole())
            .push_bind(change.algorithm.clone());
    });
    let done = insert.build().execute(connection).await;
    done.map_err(failure::of).map(drop)
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
) -> QueryBuilder<Sqlite> {
    let mut select = QueryBuilder::new("WITH own (id) AS (SELECT id FROM projects WHERE tenant = ");
    select.push_bind(tenant.as_bytes().to_vec());
    select.push(" AND id = ").push_bind(project.to_string());
    select.push("), asked (path, every) AS (");
    select.push_values(paths.iter().enumerate(), |mut row, (n, path)| {
        row.push_bind(path.clone())
            .push(if n == 0 { "1" } else { "0" });
    });
    select.push(
        "), found (sequence, path) AS (SELECT one.sequence, max(one.path) \
         FROM asked CROSS JOIN versions one ON one.path = asked.path AND one.sequence IN (\
         SELECT sequence FROM versions other INDEXED BY versions_by_path WHERE other.path = asked.path \
         AND (asked.every OR other.whole) AND other.sequence < ",
    );
    select.push_bind(sequence_bound(before));
    select.push(" AND other.project = (SELECT id FROM own) ORDER BY other.sequence DESC LIMIT ");
    select.push_bind(limit);
    select.push(
        ") WHERE one.project = (SELECT id FROM own) \
         GROUP BY one.sequence ORDER BY one.sequence DESC LIMIT ",
    );
    select.push_bind(limit);
    select.push(concat!(
        ") SELECT ",
        columns!(),
        " FROM found CROSS JOIN versions USING (sequence, path) \
          CROSS JOIN landings USING (project, sequence) WHERE project = (SELECT id FROM own) \
          ORDER BY found.sequence DESC"
    ));
    select
}
