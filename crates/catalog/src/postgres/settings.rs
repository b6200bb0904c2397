//! Settings: names and values.

use async_trait::async_trait;

use super::values::searched;
use super::{PostgresCatalog, failure};
use crate::bounds;
use crate::catalog::Settings;
use crate::error::Result;

pub(super) const SET: &str = "INSERT INTO settings (name, value) VALUES ($1, $2) \
                              ON CONFLICT (name) DO UPDATE SET value = excluded.value";

#[async_trait]
impl Settings for PostgresCatalog {
    async fn setting(&self, name: &str) -> Result<Option<String>> {
        sqlx::query_scalar("SELECT value FROM settings WHERE name = $1")
            .bind(searched(name))
            .fetch_optional(self.database.pool())
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
        let statement = sqlx::query("DELETE FROM settings WHERE name = $1").bind(searched(name));
        Ok(self.database.run(statement).await? > 0)
    }
}

pub(super) fn check(name: &str, value: &str) -> Result<()> {
    bounds::name("the name of a setting", name)?;
    bounds::text("the value of a setting", value)
}
