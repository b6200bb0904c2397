//! Conflicts that workspaces have not settled yet.

use elevo_core::TreePath;
use sqlx::SqliteConnection;

use super::failure;
use crate::error::Result;
use crate::records::Unsettled;
use crate::stored;

pub(super) const SELECT: &str = "SELECT path, seen, entry_left, marked FROM workspaces \
     CROSS JOIN unsettled ON workspace = id WHERE tenant = ? AND id = ? ORDER BY path";

const INSERT: &str =
    "INSERT INTO unsettled (workspace, path, seen, entry_left, marked) VALUES (?, ?, ?, ?, ?)";

/// Replaces all unsettled conflicts of a workspace.
pub(super) async fn replace(
    connection: &mut SqliteConnection,
    workspace: &str,
    all: &[Unsettled],
) -> Result<()> {
    sqlx::query("DELETE FROM unsettled WHERE workspace = ?")
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

pub(super) async fn remove(
    connection: &mut SqliteConnection,
    workspace: &str,
    settled: &[TreePath],
) -> Result<()> {
    for path in settled {
        sqlx::query("DELETE FROM unsettled WHERE workspace = ? AND path = ?")
            .bind(workspace)
            .bind(stored::path(path))
            .execute(&mut *connection)
            .await
            .map_err(failure::of)?;
    }
    Ok(())
}
