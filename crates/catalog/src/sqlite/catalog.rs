//! The calls that concern the whole catalog.

use async_trait::async_trait;

use super::{SqliteCatalog, failure, settings};
use crate::catalog::Catalog;
use crate::error::Result;

/// Each statement moves the expiry of one kind of record by the bound
/// microseconds.
const MOVES: [&str; 7] = [
    "UPDATE sandboxes SET expires = expires + ? WHERE removing = 0",
    "UPDATE workspaces SET expires = expires + ? WHERE expires IS NOT NULL",
    "UPDATE reviews SET expires = expires + ? WHERE state = 'open' AND expires IS NOT NULL",
    "UPDATE requests SET keep_until = keep_until + ?",
    "UPDATE webhooks SET previous_until = previous_until + ? WHERE previous_until IS NOT NULL",
    "UPDATE leases SET expires = expires + ? WHERE expires > 0",
    "UPDATE nodes SET expires = expires + ? WHERE session > 0",
];

#[async_trait]
impl Catalog for SqliteCatalog {
    async fn move_expiry(&self, by: i64, setting: &str, value: &str) -> Result<()> {
        settings::check(setting, value)?;
        let mut transaction = self.database.write().await?;
        for statement in MOVES {
            let moved = sqlx::query(statement).bind(by).execute(&mut *transaction);
            moved.await.map_err(failure::of)?;
        }
        let set = sqlx::query(settings::SET).bind(setting).bind(value);
        set.execute(&mut *transaction).await.map_err(failure::of)?;
        transaction.commit().await
    }

    async fn check(&self) -> Result<()> {
        self.database.check().await
    }

    async fn close(&self) {
        self.database.close().await;
    }
}
