//! Settings: names and values.

use super::database::Database;
use super::failure;
use crate::bounds;
use crate::error::Result;

pub(super) async fn get(database: &Database, name: &str) -> Result<Option<String>> {
    sqlx::query_scalar("SELECT value FROM settings WHERE name = ?")
        .bind(name)
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)
}

pub(super) async fn set(database: &Database, name: &str, value: &str) -> Result<()> {
    bounds::name("the name of a setting", name)?;
    bounds::text("the value of a setting", value)?;
    let statement = sqlx::query("REPLACE INTO settings (name, value) VALUES (?, ?)")
        .bind(name)
        .bind(value);
    database.run(statement).await?;
    Ok(())
}
