//! Templates.

use super::database::{self, Database};
use super::{failure, rows};
use crate::bounds::{self, micros};
use crate::error::{Limit, Result};
use crate::records::Template;

macro_rules! columns {
    () => {
        "name, image, description, tags, size, writable_root, created"
    };
}

pub(super) async fn put(database: &Database, template: &Template) -> Result<()> {
    bounds::template(template)?;
    let mut transaction = database.write().await?;
    // A template that is replaced does not count.
    let count = sqlx::query("SELECT count(*) FROM templates WHERE name <> ?");
    let count = count.bind(&template.name);
    database::check_room(&mut transaction, count, Limit::Templates).await?;
    let replace = concat!(
        "REPLACE INTO templates (",
        columns!(),
        ") VALUES (?, ?, ?, ?, ?, ?, ?)"
    );
    sqlx::query(replace)
        .bind(&template.name)
        .bind(&template.image)
        .bind(&template.description)
        .bind(rows::to_json(&template.tags)?)
        .bind(template.size as i64)
        .bind(template.writable_root)
        .bind(micros(template.created)?)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of)?;
    transaction.commit().await
}

pub(super) async fn get(database: &Database, name: &str) -> Result<Option<Template>> {
    let select = concat!("SELECT ", columns!(), " FROM templates WHERE name = ?");
    let row = sqlx::query(select)
        .bind(name)
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::template).transpose()
}

pub(super) async fn list(database: &Database) -> Result<Vec<Template>> {
    let select = concat!("SELECT ", columns!(), " FROM templates ORDER BY name");
    let rows = sqlx::query(select)
        .fetch_all(database.readers())
        .await
        .map_err(failure::of)?;
    rows::all(&rows, rows::template)
}

pub(super) async fn remove(database: &Database, name: &str) -> Result<bool> {
    let statement = sqlx::query("DELETE FROM templates WHERE name = ?").bind(name);
    let done = database.run(statement).await?;
    Ok(done > 0)
}
