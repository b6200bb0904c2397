//! The statements of a collection.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use elevo_engine::StoreResult;
use elevo_objects::{Kind, ObjectKey, SnapshotId};
use tokio::time::sleep;

use super::{Collecting, PAGE, snapshot_key};
use crate::failure;
use crate::marks::Position;
use crate::read::hashes;
use crate::snapshots::snapshot_ids;
use crate::steps::{Step, reached};

/// Pause between two looks at the answers of other nodes.
const LOOK: Duration = Duration::from_millis(20);

impl Collecting {
    /// Counts the live nodes that have not acted on a round.
    pub(super) async fn silent(&self, seq: i64) -> StoreResult<i64> {
        sqlx::query_scalar("SELECT store.silent_1($1)")
            .bind(seq)
            .fetch_one(&self.store.pool)
            .await
            .map_err(failure::of)
    }

    /// Waits until every live node has acted on a round.
    pub(super) async fn wait_for(&self, seq: i64) -> StoreResult<()> {
        self.store.node.act().await?;
        while self.silent(seq).await? > 0 {
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Returns the positions of stored objects, in the order of `keys`.
    pub(super) async fn positions(&self, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Position>>> {
        let objects = keys.iter().filter(|key| key.kind != Kind::Snapshot);
        let objects: Vec<_> = objects.copied().collect();
        let rows: Vec<(Vec<u8>, i64, i16)> = match objects.is_empty() {
            true => Vec::new(),
            false => sqlx::query_as(
                "SELECT hash, pack, place FROM store.objects WHERE tenant = $1 AND hash = ANY ($2)",
            )
            .bind(self.tenant)
            .bind(hashes(&objects))
            .fetch_all(&self.store.pool)
            .await
            .map_err(failure::of)?,
        };
        let found: HashMap<_, _> = rows
            .into_iter()
            .map(|(hash, pack, place)| {
                let place = place as u16;
                (hash, Position { pack, place })
            })
            .collect();
        let find = |key: &ObjectKey| found.get(key.hash.as_bytes().as_slice()).copied();
        Ok(keys.iter().map(find).collect())
    }

    pub(super) fn is_marked(&self, id: SnapshotId) -> bool {
        self.marks.lock().has_key(&snapshot_key(id))
    }

    /// Returns those of `ids` that were committed since the beginning.
    pub(super) async fn kept(&self, ids: &[SnapshotId]) -> StoreResult<HashSet<SnapshotId>> {
        let rows: Vec<Vec<u8>> = sqlx::query_scalar(
            "SELECT id FROM store.snapshots WHERE tenant = $1 AND id = ANY ($2) AND seen >= $3",
        )
        .bind(self.tenant)
        .bind(snapshot_ids(ids))
        .bind(self.number)
        .fetch_all(&self.store.pool)
        .await
        .map_err(failure::of)?;
        rows.iter().map(|id| failure::id(id)).collect()
    }

    /// Condemns all snapshots without a mark, and calls the nodes.
    pub(super) async fn condemn(&self) -> StoreResult<i64> {
        let pool = &self.store.pool;
        let mut after = Vec::new();
        loop {
            let page: Vec<Vec<u8>> = sqlx::query_scalar(
                "SELECT id FROM store.snapshots WHERE tenant = $1 AND id > $2 AND seen < $3 \
                 ORDER BY id LIMIT $4",
            )
            .bind(self.tenant)
            .bind(&after)
            .bind(self.number)
            .bind(PAGE)
            .fetch_all(pool)
            .await
            .map_err(failure::of)?;
            let Some(last) = page.last().cloned() else {
                break;
            };
            let mut condemned = Vec::new();
            for id in page {
                if !self.is_marked(failure::id(&id)?) {
                    condemned.push(id);
                }
            }
            sqlx::query("SELECT store.condemn_1($1, $2, $3, $4)")
                .bind(self.tenant)
                .bind(self.token)
                .bind(self.number)
                .bind(condemned)
                .execute(pool)
                .await
                .map_err(failure::of)?;
            after = last;
        }
        reached(Step::Condemned);
        sqlx::query_scalar("SELECT store.call_closing_1($1, $2, $3)")
            .bind(self.tenant)
            .bind(self.token)
            .bind(self.number)
            .fetch_one(pool)
            .await
            .map_err(failure::of)
    }

    /// Returns the snapshots that nodes hold, by their answers to a round.
    pub(super) async fn vetoes(&self, seq: i64) -> StoreResult<Vec<SnapshotId>> {
        let vetoes = "SELECT DISTINCT snapshot FROM store.vetoes WHERE tenant = $1 AND seq = $2";
        let rows: Vec<Vec<u8>> = sqlx::query_scalar(vetoes)
            .bind(self.tenant)
            .bind(seq)
            .fetch_all(&self.store.pool)
            .await
            .map_err(failure::of)?;
        rows.iter().map(|id| failure::id(id)).collect()
    }

    /// Returns the snapshots that nodes hold and that have not arrived yet. These
    /// and the marked ones are not condemned any more. One that has arrived and
    /// was not marked stays condemned: it was not there to be walked.
    pub(super) async fn pardon(&self, closing: i64) -> StoreResult<Vec<SnapshotId>> {
        let vetoed = self.vetoes(closing).await?;
        let arrived = self.state.lock().arrived.clone();
        let stays = |id: &SnapshotId| self.is_marked(*id) || !arrived.contains(id);
        let vetoed: Vec<_> = vetoed.into_iter().filter(stays).collect();
        sqlx::query("SELECT store.pardon_1($1, $2, $3)")
            .bind(self.tenant)
            .bind(self.token)
            .bind(snapshot_ids(&vetoed))
            .execute(&self.store.pool)
            .await
            .map_err(failure::of)?;
        Ok(vetoed)
    }

    pub(super) async fn delete_objects(
        &self,
        hashes: Vec<Vec<u8>>,
    ) -> StoreResult<HashSet<Vec<u8>>> {
        if hashes.is_empty() {
            return Ok(HashSet::new());
        }
        let rows: Vec<Vec<u8>> = sqlx::query_scalar("SELECT hash FROM store.sweep_1($1, $2, $3)")
            .bind(self.tenant)
            .bind(self.token)
            .bind(hashes)
            .fetch_all(&self.store.pool)
            .await
            .map_err(failure::of)?;
        reached(Step::ObjectsDeleted);
        Ok(rows.into_iter().collect())
    }

    pub(super) async fn delete_snapshots(
        &self,
        ids: Vec<Vec<u8>>,
    ) -> StoreResult<HashSet<Vec<u8>>> {
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let rows: Vec<Vec<u8>> = sqlx::query_scalar(
            "DELETE FROM store.snapshots WHERE tenant = $1 AND id = ANY ($2) AND condemned = $3 \
             AND EXISTS (SELECT FROM store.gc WHERE tenant = $1 AND token = $4 AND phase <> 'm') \
             RETURNING id",
        )
        .bind(self.tenant)
        .bind(ids)
        .bind(self.number)
        .bind(self.token)
        .fetch_all(&self.store.pool)
        .await
        .map_err(failure::of)?;
        reached(Step::SnapshotsDeleted);
        Ok(rows.into_iter().collect())
    }
}
