//! The calls that concern the whole catalog.

use async_trait::async_trait;

use super::{PostgresCatalog, failure, settings};
use crate::catalog::Catalog;
use crate::error::Result;

/// Each statement moves the expiry of one kind of record by the bound
/// microseconds.
const MOVES: [&str; 5] = [
    "UPDATE sandboxes SET expires = expires + $1 WHERE NOT removing",
    "UPDATE workspaces SET expires = expires + $1 WHERE expires IS NOT NULL",
    "UPDATE reviews SET expires = expires + $1 WHERE state = 'open' AND expires IS NOT NULL",
    "UPDATE requests SET keep_until = keep_until + $1",
    "UPDATE webhooks SET previous_until = previous_until + $1 WHERE previous_until IS NOT NULL",
];

#[async_trait]
impl Catalog for PostgresCatalog {
    async fn move_expiry(&self, by: i64, setting: &str, value: &str) -> Result<()> {
        settings::check(setting, value)?;
        let mut transaction = self.database.write().await?;
        for statement in MOVES {
            let moved = sqlx::query(statement).bind(by).execute(&mut *transaction);
            moved.await.map_err(failure::of)?;
        }
        let set = sqlx::query(settings::SET).bind(setting).bind(value);
        set.execute(&mut *transaction).await.map_err(failure::of)?;
        self.database.commit(transaction).await
    }

    async fn check(&self) -> Result<()> {
        self.database.check().await
    }

    async fn close(&self) {
        self.database.close().await;
    }
}
