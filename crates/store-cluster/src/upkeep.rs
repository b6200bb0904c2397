//! The work that one process of the cluster does in the background for all of them,
//! under a lease: packs are bundled, unused files are deleted, and once a week the
//! files are compared with the bucket.

use std::sync::Weak;
use std::time::Duration;

use elevo_engine::StoreResult;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::failure;
use crate::store::Inner;

/// Intervals after which another process takes over if this one stops.
const LEASE: u32 = 4;
/// Time between two comparisons of the files with the bucket.
const COMPARE: Duration = Duration::from_hours(7 * 24);

/// A task that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Upkeep(JoinHandle<()>);

impl Upkeep {
    pub(crate) fn start(store: Weak<Inner>, every: Duration) -> Self {
        Self(tokio::spawn(async move {
            loop {
                sleep(every).await;
                let Some(store) = store.upgrade() else {
                    return;
                };
                match store.leads_upkeep(every * LEASE).await {
                    Ok(true) => store.keep_up().await,
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%error, "cannot take the lease of the upkeep"),
                }
            }
        }))
    }

    pub(crate) fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Inner {
    async fn leads_upkeep(&self, lease: Duration) -> StoreResult<bool> {
        sqlx::query_scalar("SELECT store.lead_upkeep_1($1, $2)")
            .bind(self.node.id)
            .bind(lease)
            .fetch_one(&self.pool)
            .await
            .map_err(failure::of)
    }

    /// One turn. A part that fails does not keep the others from their work.
    async fn keep_up(&self) {
        if let Err(error) = self.bundle_due().await {
            tracing::warn!(%error, "cannot bundle the packs of the store");
        }
        if let Err(error) = self.clean().await {
            tracing::warn!(%error, "cannot delete the unused files of the store");
        }
        if let Err(error) = self.grow_when_due().await {
            tracing::warn!(%error, "cannot mark the bucket of the store");
        }
        match self.compare_when_due().await {
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "cannot compare the store with its bucket"),
        }
    }

    async fn compare_when_due(&self) -> StoreResult<()> {
        let due = sqlx::query(
            "UPDATE store.upkeep SET compared = now() WHERE node = $1 AND compared < now() - $2",
        )
        .bind(self.node.id)
        .bind(COMPARE)
        .execute(&self.pool)
        .await
        .map_err(failure::of)?;
        if due.rows_affected() > 0 {
            let compared = self.compare_files().await?;
            if compared.is_equal() {
                tracing::info!(files = compared.files, "the store has all its files");
            } else {
                tracing::error!(
                    missing = compared.missing,
                    unknown = compared.unknown,
                    examples = ?compared.examples,
                    "the bucket of the store differs from its database"
                );
            }
        }
        Ok(())
    }
}
