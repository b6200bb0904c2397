//! Removal of a project, in small transactions.

use sqlx::Row;

use super::database::Database;
use super::failure;
use crate::error::{Error, Result};

/// Number of rows in one transaction: other changes can happen in between.
const BATCH: u32 = 500;

/// The records of a project; rows that refer to others are deleted first. Rows
/// selected by tenant and project belong to the project's own tenant.
pub(super) const DELETE: [&str; 7] = [
    "DELETE FROM versions WHERE (project, sequence, path) IN \
        (SELECT project, sequence, path FROM versions WHERE project = ? LIMIT ?)",
    "DELETE FROM landings WHERE (project, sequence) IN \
        (SELECT project, sequence FROM landings WHERE project = ? LIMIT ?)",
    "DELETE FROM held_requests WHERE (project, request) IN \
        (SELECT project, request FROM held_requests WHERE project = ? LIMIT ?)",
    "DELETE FROM dropped_versions WHERE (project, snapshot) IN \
        (SELECT project, snapshot FROM dropped_versions WHERE project = ? LIMIT ?)",
    "DELETE FROM tags WHERE (project, name) IN \
        (SELECT project, name FROM tags WHERE project = ? LIMIT ?)",
    "DELETE FROM reviews WHERE id IN (SELECT id FROM reviews \
        WHERE (tenant, project) = (SELECT tenant, id FROM projects WHERE id = ?) LIMIT ?)",
    "DELETE FROM workspaces WHERE id IN (SELECT id FROM workspaces \
        WHERE (tenant, project) = (SELECT tenant, id FROM projects WHERE id = ?) LIMIT ?)",
];

pub(super) async fn remove(database: &Database, id: &str) -> Result<bool> {
    match is_removing(database, id).await? {
        None => return Ok(false),
        Some(false) => return Err(Error::Refused("the project is not being removed".into())),
        Some(true) => {}
    }
    for delete in DELETE {
        delete_all(database, delete, id).await?;
    }
    let mut transaction = database.write().await?;
    sqlx::query("DELETE FROM policies WHERE project = ?")
        .bind(id)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of)?;
    let done = sqlx::query("DELETE FROM projects WHERE id = ?")
        .bind(id)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of)?;
    transaction.commit().await?;
    Ok(done.rows_affected() > 0)
}

async fn is_removing(database: &Database, id: &str) -> Result<Option<bool>> {
    let row = sqlx::query("SELECT removing FROM projects WHERE id = ?")
        .bind(id)
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    let removing = row.map(|row| row.try_get(0).map_err(failure::of));
    removing.transpose()
}

async fn delete_all(database: &Database, delete: &'static str, project: &str) -> Result<()> {
    loop {
        let statement = sqlx::query(delete).bind(project).bind(BATCH);
        let done = database.run(statement).await?;
        if done < u64::from(BATCH) {
            return Ok(());
        }
    }
}
