//! Settings: names and values.

use async_trait::async_trait;

use super::{SqliteCatalog, failure};
use crate::bounds;
use crate::catalog::Settings;
use crate::error::Result;

pub(super) const SET: &str = "REPLACE INTO settings (name, value) VALUES (?, ?)";

#[async_trait]
impl Settings for SqliteCatalog {
    async fn setting(&self, name: &str) -> Result<Option<String>> {
        sqlx::query_scalar("SELECT value FROM settings WHERE name = ?")
            .bind(name)
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        check(name, value)?;
        let statement = sqlx::query(SET).bind(name).bind(value);
        self.database.run(statement).await?;
        Ok(())
    }

    async fn remove_setting(&self, name: &str) -> Result<bool> {
        let statement = sqlx::query("DELETE FROM settings WHERE name = ?").bind(name);
        Ok(self.database.run(statement).await? > 0)
    }
}

pub(super) fn check(name: &str, value: &str) -> Result<()> {
    bounds::name("the name of a setting", name)?;
    bounds::text("the value of a setting", value)
}
