//! Collections of garbage, beside the commits of all processes.
//!
//! ```text
//! begin   with the tenant locked: number + 1, phase marking; a round opens
//! wait    until every live node has acknowledged the opening, and no session
//!         with a smaller number is left
//! mark    everything that roots and arrivals need; all snapshots that were
//!         committed since the beginning are arrivals
//! close   condemn the other snapshots; in a closing round each node vetoes
//!         those that it holds; vetoed ones arrive and stay; phase sweeping,
//!         unless a node has ended without its answer
//! sweep   delete condemned snapshots, then objects that were not seen since
//!         the beginning and have no mark
//! ```

mod rows;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_engine::{Collection, GcScope, StoreResult, Swept};
use elevo_objects::{Hash, Kind, ObjectKey, SnapshotId};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::bucket::FileKey;
use crate::failure;
use crate::marks::{Marks, Position};
use crate::steps::{Step, reached};
use crate::store::Inner;

/// Rows read and deleted at a time.
const PAGE: i64 = 1000;
/// Attempts to lock a tenant with many commits, and the pause between two.
const ATTEMPTS: u32 = 100;
const AGAIN: Duration = Duration::from_millis(20);

/// A running collection, until dropped.
pub(crate) struct Collecting {
    store: Arc<Inner>,
    tenant: i32,
    number: i32,
    token: i64,
    /// Round of the opening.
    opening: i64,
    scope: GcScope,
    marks: Mutex<Marks>,
    state: Mutex<State>,
    /// The file with the marks of the last collection.
    earlier: Option<FileKey>,
    /// The last object that was swept.
    swept: Option<Hash>,
    is_finished: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Snapshots that have arrived.
    arrived: HashSet<SnapshotId>,
    /// Whether all snapshots have arrived that were committed while there were
    /// older writers.
    is_settled: bool,
    /// Round of the closing.
    closing: Option<i64>,
    is_closed: bool,
    /// Snapshots that other nodes hold, and that have not arrived yet.
    vetoed: Vec<SnapshotId>,
}

impl Inner {
    pub(crate) async fn collect(
        self: &Arc<Self>,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<Collecting> {
        let tenant = self.tenant(tenant).await?;
        let token = self.ids.next();
        let (number, opening, earlier) = self.begin(tenant, token).await?;
        reached(Step::Begun);
        // Releases the collection if the next steps fail.
        let mut collecting = Collecting {
            store: self.clone(),
            tenant,
            number,
            token,
            opening,
            scope: GcScope::Full,
            marks: Mutex::default(),
            state: Mutex::default(),
            earlier: earlier.as_deref().and_then(FileKey::read),
            swept: None,
            is_finished: false,
        };
        self.node.act().await?;
        if let (GcScope::Young, Some(file)) = (scope, collecting.earlier) {
            let marks = self.bucket.get(tenant, file).await?;
            // Without them, the collection is a full one.
            if let Some(marks) = marks.and_then(|marks| Marks::decode(&marks)) {
                collecting.scope = GcScope::Young;
                *collecting.marks.get_mut() = marks;
            }
        }
        Ok(collecting)
    }

    async fn begin(&self, tenant: i32, token: i64) -> StoreResult<(i32, i64, Option<Vec<u8>>)> {
        let mut attempt = 1;
        loop {
            let ended = self.ended.lock().clone();
            let begun =
                sqlx::query_as("SELECT number, seq, marks FROM store.collect_1($1, $2, $3, $4)")
                    .bind(self.node.id)
                    .bind(tenant)
                    .bind(token)
                    .bind(ended)
                    .fetch_one(&self.pool)
                    .await;
            let error = match begun {
                Ok(begun) => return Ok(begun),
                Err(error) => error,
            };
            let code = error.as_database_error().and_then(|error| error.code());
            let is_locked = code.is_some_and(|code| ["55P03", "40P01"].contains(&&*code));
            if !is_locked || attempt == ATTEMPTS {
                return Err(failure::of(error));
            }
            attempt += 1;
            sleep(AGAIN).await;
        }
    }
}

#[async_trait]
impl Collection for Collecting {
    fn scope(&self) -> GcScope {
        self.scope
    }

    /// Counts a session of another process as one writer, and a process that has
    /// not heard of this collection as another.
    async fn older_writers(&self) -> StoreResult<usize> {
        self.store.node.act().await?;
        let sessions: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM store.sessions \
             WHERE tenant = $1 AND number < $2 AND NOT id = ANY ($3)",
        )
        .bind(self.tenant)
        .bind(self.number)
        .bind(self.store.node.sessions.ended())
        .fetch_one(&self.store.pool)
        .await
        .map_err(failure::of)?;
        let silent = self.silent(self.opening).await?;
        Ok(usize::try_from(sessions + silent).unwrap_or(usize::MAX))
    }

    async fn arrivals(&self) -> StoreResult<Vec<SnapshotId>> {
        let mut new = self.vetoes(self.opening).await?;
        new.extend(self.store.node.guards.arrived(self.tenant));
        new.append(&mut self.state.lock().vetoed);
        let is_settled = self.state.lock().is_settled;
        if !is_settled {
            let settles = self.older_writers().await? == 0;
            let rows: Vec<Vec<u8>> = sqlx::query_scalar(
                "SELECT id FROM store.snapshots WHERE tenant = $1 AND seen >= $2 ORDER BY id",
            )
            .bind(self.tenant)
            .bind(self.number)
            .fetch_all(&self.store.pool)
            .await
            .map_err(failure::of)?;
            for id in rows {
                new.push(failure::id(&id)?);
            }
            self.state.lock().is_settled = settles;
        }
        let arrived = &mut self.state.lock().arrived;
        new.retain(|id| arrived.insert(*id));
        Ok(new)
    }

    async fn marked(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let positions = self.positions(keys).await?;
        let marks = self.marks.lock();
        let is_marked = |(key, position): (&ObjectKey, Option<Position>)| {
            marks.has_key(key) || position.is_some_and(|position| marks.has(position))
        };
        Ok(keys.iter().zip(positions).map(is_marked).collect())
    }

    async fn mark(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let positions = self.positions(keys).await?;
        let mut marks = self.marks.lock();
        let mark = |(key, position): (&ObjectKey, Option<Position>)| match position {
            Some(position) => !marks.has_key(key) & marks.add(position),
            None => marks.add_key(key),
        };
        Ok(keys.iter().zip(positions).map(mark).collect())
    }

    async fn close(&self) -> StoreResult<bool> {
        if self.state.lock().is_closed {
            return Ok(true);
        }
        let arrived = self.store.node.guards.arrived(self.tenant);
        let known = self.state.lock().arrived.clone();
        let is_unknown = |id: &SnapshotId| !known.contains(id) && !self.is_marked(*id);
        let unknown: Vec<_> = arrived.into_iter().filter(is_unknown).collect();
        if !unknown.is_empty() {
            let kept = self.kept(&unknown).await?;
            if unknown.iter().any(|id| !kept.contains(id)) {
                return Ok(false);
            }
        }
        let closing = self.state.lock().closing;
        if closing.is_none() {
            let closing = self.condemn().await?;
            reached(Step::Called);
            self.wait_for(closing).await?;
            let mut vetoed = self.pardon(closing).await?;
            reached(Step::Pardoned);
            vetoed.retain(|id| !self.is_marked(*id));
            let mut state = self.state.lock();
            state.closing = Some(closing);
            state.vetoed = vetoed;
        }
        if !self.state.lock().vetoed.is_empty() {
            return Ok(false);
        }
        let closing = self.state.lock().closing;
        sqlx::query("SELECT store.begin_sweep_1($1, $2, $3, $4)")
            .bind(self.tenant)
            .bind(self.token)
            .bind(self.opening)
            .bind(closing)
            .execute(&self.store.pool)
            .await
            .map_err(failure::of)?;
        reached(Step::Sweeping);
        self.state.lock().is_closed = true;
        Ok(true)
    }

    async fn unmarked_snapshots(
        &self,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let after = after.map(|id| id.0.as_bytes().to_vec());
        let rows: Vec<Vec<u8>> = sqlx::query_scalar(
            "SELECT id FROM store.snapshots WHERE tenant = $1 AND id > $2 AND condemned = $3 \
             ORDER BY id LIMIT $4",
        )
        .bind(self.tenant)
        .bind(after.unwrap_or_default())
        .bind(self.number)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&self.store.pool)
        .await
        .map_err(failure::of)?;
        rows.iter().map(|id| failure::id(id)).collect()
    }

    async fn remove(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let is_marked = self.marked(keys).await?;
        let unmarked = keys
            .iter()
            .zip(is_marked)
            .filter(|(_, is_marked)| !is_marked);
        let of = |key: &ObjectKey| key.hash.as_bytes().to_vec();
        let (snapshots, objects): (Vec<_>, Vec<_>) = unmarked
            .map(|(key, _)| key)
            .partition(|key| key.kind == Kind::Snapshot);
        let snapshots = self.delete_snapshots(snapshots.into_iter().map(of).collect());
        let mut removed = snapshots.await?;
        removed.extend(
            self.delete_objects(objects.into_iter().map(of).collect())
                .await?,
        );
        let is_removed = |key: &ObjectKey| removed.contains(key.hash.as_bytes().as_slice());
        Ok(keys.iter().map(is_removed).collect())
    }

    async fn sweep(&mut self, only_count: bool) -> StoreResult<Option<Swept>> {
        let after = self.swept.map(|hash| hash.as_bytes().to_vec());
        let rows: Vec<(Vec<u8>, i64, i16, i32)> = sqlx::query_as(
            "SELECT hash, pack, place, seen FROM store.objects WHERE tenant = $1 AND hash > $2 \
             ORDER BY hash LIMIT $3",
        )
        .bind(self.tenant)
        .bind(after.unwrap_or_default())
        .bind(PAGE)
        .fetch_all(&self.store.pool)
        .await
        .map_err(failure::of)?;
        let Some((last, ..)) = rows.last() else {
            return Ok(None);
        };
        self.swept = Some(failure::id(last)?.0);
        let seen = rows.len() as u64;
        let marks = self.marks.get_mut();
        let is_garbage = |(_, pack, place, seen): &(Vec<u8>, i64, i16, i32)| {
            let (pack, place) = (*pack, *place as u16);
            *seen < self.number && !marks.has(Position { pack, place })
        };
        let garbage: Vec<_> = rows
            .into_iter()
            .filter(is_garbage)
            .map(|row| row.0)
            .collect();
        let removed = match only_count {
            true => garbage.len(),
            false => self.delete_objects(garbage).await?.len(),
        };
        let removed = removed as u64;
        Ok(Some(Swept { seen, removed }))
    }

    async fn finish(mut self: Box<Self>) -> StoreResult<()> {
        let marks = self.marks.get_mut().encode();
        let file = FileKey::random();
        let store = self.store.clone();
        let (id, size) = (store.ids.next(), marks.len() as i64);
        store.stage(self.tenant, &[(id, file)]).await?;
        reached(Step::MarksStaged);
        store.bucket.put(self.tenant, file, marks.into()).await?;
        reached(Step::MarksUploaded);
        sqlx::query("SELECT store.finish_1($1, $2, $3, $4, $5)")
            .bind(self.tenant)
            .bind(self.token)
            .bind(id)
            .bind(file.0.to_vec())
            .bind(size)
            .execute(&store.pool)
            .await
            .map_err(failure::of)?;
        reached(Step::Finished);
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // The next collection of this process takes over at once; others when
        // the row says so.
        self.store.ended.lock().push(self.token);
        let (store, tenant, token) = (self.store.clone(), self.tenant, self.token);
        let ended = async move {
            let ended = sqlx::query("SELECT store.abort_1($1, $2)")
                .bind(tenant)
                .bind(token)
                .execute(&store.pool)
                .await;
            if let Err(error) = ended {
                tracing::warn!(%error, "cannot end a collection; the next one will");
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(ended);
        }
    }
}

fn snapshot_key(id: SnapshotId) -> ObjectKey {
    ObjectKey {
        kind: Kind::Snapshot,
        hash: id.0,
    }
}
