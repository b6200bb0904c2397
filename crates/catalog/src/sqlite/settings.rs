//! Settings: names and values.

use super::database::Database;
use super::failure;
use crate::bounds;
use crate::error::Result;

const SET: &str = "REPLACE INTO settings (name, value) VALUES (?, ?)";

pub(super) async fn get(database: &Database, name: &str) -> Result<Option<String>> {
    sqlx::query_scalar("SELECT value FROM settings WHERE name = ?")
        .bind(name)
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)
}

pub(super) async fn set(database: &Database, name: &str, value: &str) -> Result<()> {
    check(name, value)?;
    let statement = sqlx::query(SET).bind(name).bind(value);
    database.run(statement).await?;
    Ok(())
}

fn check(name: &str, value: &str) -> Result<()> {
    bounds::name("the name of a setting", name)?;
    bounds::text("the value of a setting", value)
}

/// Each statement moves the expiry of one kind of record by the bound
/// microseconds.
const MOVES: [&str; 4] = [
    "UPDATE sandboxes SET expires = expires + ? WHERE removing = 0",
    "UPDATE workspaces SET expires = expires + ? WHERE expires IS NOT NULL",
    "UPDATE reviews SET expires = expires + ? WHERE state = 'open' AND expires IS NOT NULL",
    "UPDATE requests SET keep_until = keep_until + ?",
];

pub(super) async fn move_expiry(
    database: &Database,
    by: i64,
    setting: &str,
    value: &str,
) -> Result<()> {
    check(setting, value)?;
    let mut transaction = database.write().await?;
    for statement in MOVES {
        let moved = sqlx::query(statement).bind(by).execute(&mut *transaction);
        moved.await.map_err(failure::of)?;
    }
    let set = sqlx::query(SET).bind(setting).bind(value);
    set.execute(&mut *transaction).await.map_err(failure::of)?;
    transaction.commit().await
}

pub(super) async fn remove(database: &Database, name: &str) -> Result<bool> {
    let statement = sqlx::query("DELETE FROM settings WHERE name = ?").bind(name);
    Ok(database.run(statement).await? > 0)
}
