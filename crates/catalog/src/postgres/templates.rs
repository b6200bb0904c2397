//! Statements on templates.

use async_trait::async_trait;

use super::values::searched;
use super::{PostgresCatalog, database, failure};
use crate::bounds::{self, micros};
use crate::catalog::Templates;
use crate::error::{Limit, Result};
use crate::records::Template;
use crate::sqlite::values;

macro_rules! columns {
    () => {
        "name, image, description, tags, size, writable_root, created"
    };
}

#[async_trait]
impl Templates for PostgresCatalog {
    async fn put_template(&self, template: &Template) -> Result<()> {
        bounds::template(template)?;
        let mut transaction = self.database.write().await?;
        database::lock_server(&mut transaction).await?;
        // A template that is replaced does not count.
        let count = sqlx::query("SELECT count(*) FROM templates WHERE name <> $1");
        let count = count.bind(&template.name);
        database::check_max_listed(&mut transaction, count, Limit::Templates).await?;
        let replace = concat!(
            "INSERT INTO templates (",
            columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO UPDATE SET image = excluded.image, \
             description = excluded.description, tags = excluded.tags, size = excluded.size, \
             writable_root = excluded.writable_root, created = excluded.created"
        );
        sqlx::query(replace)
            .bind(&template.name)
            .bind(&template.image)
            .bind(&template.description)
            .bind(values::to_json(&template.tags)?)
            .bind(template.size as i64)
            .bind(template.writable_root)
            .bind(micros(template.created)?)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        self.database.commit(transaction).await
    }

    async fn template(&self, name: &str) -> Result<Option<Template>> {
        let select = concat!("SELECT ", columns!(), " FROM templates WHERE name = $1");
        sqlx::query_as(select)
            .bind(searched(name))
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        let select = concat!("SELECT ", columns!(), " FROM templates ORDER BY name");
        sqlx::query_as(select)
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn remove_template(&self, name: &str) -> Result<bool> {
        let statement = sqlx::query("DELETE FROM templates WHERE name = $1").bind(searched(name));
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }
}
