//! Statements on templates.

use async_trait::async_trait;

use super::{SqliteCatalog, database, failure, values};
use crate::bounds::{self, micros};
use crate::catalog::Templates;
use crate::error::{Limit, Result};
use crate::records::Template;

macro_rules! columns {
    () => {
        "name, image, description, tags, size, writable_root, created"
    };
}

#[async_trait]
impl Templates for SqliteCatalog {
    async fn put_template(&self, template: &Template) -> Result<()> {
        bounds::template(template)?;
        let mut transaction = self.database.write().await?;
        // A template that is replaced does not count.
        let count = sqlx::query("SELECT count(*) FROM templates WHERE name <> ?");
        let count = count.bind(&template.name);
        database::check_max_listed(&mut transaction, count, Limit::Templates).await?;
        let replace = concat!(
            "REPLACE INTO templates (",
            columns!(),
            ") VALUES (?, ?, ?, ?, ?, ?, ?)"
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
        transaction.commit().await
    }

    async fn template(&self, name: &str) -> Result<Option<Template>> {
        let select = concat!("SELECT ", columns!(), " FROM templates WHERE name = ?");
        sqlx::query_as(select)
            .bind(name)
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        let select = concat!("SELECT ", columns!(), " FROM templates ORDER BY name");
        sqlx::query_as(select)
            .fetch_all(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn remove_template(&self, name: &str) -> Result<bool> {
        let statement = sqlx::query("DELETE FROM templates WHERE name = ?").bind(name);
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }
}
