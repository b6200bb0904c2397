//! Conflicts that workspaces have not settled yet.

use elevo_postgres::Connection;

use super::failure;
use crate::error::Result;
use crate::records::Unsettled;
use crate::stored;

pub(super) const SELECT: &str = "SELECT path, seen, entry_left, marked FROM workspaces \
     JOIN unsettled ON workspace = id WHERE tenant = $1 AND id = $2 ORDER BY path";

const INSERT: &str =
    "INSERT INTO unsettled (workspace, path, seen, entry_left, marked) VALUES ($1, $2, $3, $4, $5)";

/// Replaces all unsettled conflicts of a workspace.
pub(super) async fn replace(
    connection: &mut Connection,
    workspace: &str,
    all: &[Unsettled],
) -> Result<()> {
    sqlx::query("DELETE FROM unsettled WHERE workspace = $1")
        .bind(workspace)
        .execute(&mut *connection)
        .await
        .map_err(failure::of)?;
    for one in all {
        sqlx::query(INSERT)
            .bind(workspace)
            .bind(stored::path(&one.path))
            .bind(one.seen.as_ref().map(stored::entry))
            .bind(one.left.as_ref().map(stored::entry))
            .bind(one.marked)
            .execute(&mut *connection)
            .await
            .map_err(failure::of)?;
    }
    Ok(())
}
