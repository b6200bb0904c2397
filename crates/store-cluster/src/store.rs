//! The store, and the calls of its interface.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{
    Collection, Commit, Committed, GcScope, Guard, Held, Object, Recent, Store, StoreError,
    StoreResult, Writer,
};
use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId};
use elevo_postgres::{Keeper, Pool};
use quick_cache::sync::Cache;

use crate::blocks::Blocks;
use crate::bucket::Bucket;
use crate::failure;
use crate::files::Compared;
use crate::identity::{self, FoundStore};
use crate::node::Node;
use crate::open::{self, OpenError};
use crate::options::Options;
use crate::upkeep::Upkeep;
use crate::writers::Writers;

/// Tenants whose numbers are kept in memory.
const TENANTS: usize = 100_000;

/// A [`Store`] in PostgreSQL and S3. Safe for many threads, and for many
/// processes at once.
pub struct ClusterStore(pub(crate) Arc<Inner>, Upkeep);

pub(crate) struct Inner {
    pub(crate) pool: Pool,
    pub(crate) bucket: Bucket,
    pub(crate) blocks: Arc<Blocks>,
    pub(crate) node: Arc<Node>,
    pub(crate) writers: Writers,
    pub(crate) options: Options,
    pub(crate) ids: Ids,
    /// Collections of this process that ended without a word.
    pub(crate) ended: parking_lot::Mutex<Vec<i64>>,
    tenants: Cache<TenantId, i32>,
    /// Ends with the store.
    _keeper: Keeper,
}

/// Ids of packs and files: the node in the upper bits, so that they are unique
/// and known before the call that records them.
#[derive(Debug)]
pub(crate) struct Ids {
    node: i64,
    last: std::sync::atomic::AtomicI64,
}

impl Ids {
    const COUNTER_BITS: u32 = 39;

    /// Begins at random, in the lower half: after a restore from a backup, the
    /// database gives the number of a node a second time. A process of the
    /// abandoned future that still runs has other ids then, and none of its
    /// commits counts as a repetition of a new one.
    #[expect(
        clippy::disallowed_methods,
        reason = "two processes must not have the same ids, also if a test repeats its seed"
    )]
    fn of(node: i32) -> Self {
        let first = rand::random::<u64>() >> (u64::BITS - Self::COUNTER_BITS + 1);
        Self {
            node: node.into(),
            last: (first as i64).into(),
        }
    }

    pub(crate) fn next(&self) -> i64 {
        let next = self.last.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        (self.node << Self::COUNTER_BITS) | next
    }
}

impl fmt::Debug for ClusterStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterStore")
            .field("node", &self.0.node.id)
            .field("bucket", &self.0.options.bucket)
            .finish_non_exhaustive()
    }
}

impl ClusterStore {
    /// Opens a store, and creates its schema if there is none. Needs a Tokio
    /// runtime, in which it leaves a task.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let bucket = open::bucket(&options.bucket)?;
        let blocks = Blocks::new(bucket.clone(), open::cache(&options.cache).await?);
        let (pool, keeper) = open::connect(&options).await?;
        // Boxed, as below: a deeply nested future takes the compiler too long.
        Box::pin(identity::claim(&pool, &bucket, options.adopts)).await?;
        let node = Node::join(&pool, options.beat, options.lease).await?;
        let tenants = Cache::new(TENANTS);
        for (id, number) in open::tenants(&pool).await? {
            tenants.insert(id, number);
        }
        let ids = Ids::of(node.id);
        let inner = Arc::new(Inner {
            pool,
            bucket,
            blocks,
            node,
            writers: Writers::default(),
            options,
            ids,
            ended: parking_lot::Mutex::default(),
            tenants,
            _keeper: keeper,
        });
        let every = inner.options.upkeep;
        let upkeep = Upkeep::start(Arc::downgrade(&inner), every);
        Ok(Self(inner, upkeep))
    }

    /// Reads a store without a change. Returns `None` if the database has none.
    /// Fails like [`Self::open`] if the bucket does not belong to the database.
    pub async fn find(options: &Options) -> Result<Option<FoundStore>, OpenError> {
        let bucket = open::bucket(&options.bucket)?;
        let mut chosen = open::choose(options).await?.1;
        Box::pin(identity::find(chosen.connection(), &bucket, options.adopts)).await
    }

    /// Writes, reads and deletes a file in the bucket.
    pub async fn try_bucket(options: &Options) -> Result<(), OpenError> {
        Ok(open::bucket(&options.bucket)?.try_out().await?)
    }

    /// Returns the number of other processes that have this store open.
    pub async fn others(&self) -> StoreResult<i64> {
        sqlx::query_scalar(
            "SELECT count(*) FROM store.nodes \
             WHERE state = 'l' AND id <> $1 AND expires > clock_timestamp()",
        )
        .bind(self.0.node.id)
        .fetch_one(&self.0.pool)
        .await
        .map_err(failure::of)
    }

    /// Waits until other processes have declared this store lost. All further
    /// changes fail; the process must open the store again.
    pub async fn lost(&self) {
        self.0.node.lost().await;
    }

    /// Moves the packs of small commits into S3 that are due. A store also does
    /// this in the background. Returns the number of new files.
    pub async fn bundle(&self) -> StoreResult<usize> {
        self.0.bundle_due().await
    }

    /// Dooms the files that nothing needs, and deletes those from S3 that were
    /// doomed long enough ago. A store also does this in the background. Returns the
    /// number of deleted files.
    pub async fn clean(&self) -> StoreResult<usize> {
        self.0.clean().await
    }

    /// Compares the files that the database names with those in the bucket. Changes
    /// nothing.
    pub async fn compare_files(&self) -> StoreResult<Compared> {
        self.0.compare_files().await
    }

    /// Ends the part of this process in the cluster, so that no collection waits
    /// for it.
    pub async fn close(&self) -> StoreResult<()> {
        self.1.stop();
        self.0.node.leave().await?;
        self.0.pool.close().await;
        self.0.blocks.close().await;
        Ok(())
    }
}

impl Inner {
    /// Returns the number of a tenant; `None` if it has stored nothing.
    pub(crate) async fn find_tenant(&self, tenant: TenantId) -> StoreResult<Option<i32>> {
        if let Some(number) = self.tenants.get(&tenant) {
            return Ok(Some(number));
        }
        let found: Option<i32> = sqlx::query_scalar("SELECT no FROM store.tenants WHERE id = $1")
            .bind(tenant.as_bytes().as_slice())
            .fetch_optional(&self.pool)
            .await
            .map_err(failure::of)?;
        if let Some(number) = found {
            self.tenants.insert(tenant, number);
        }
        Ok(found)
    }

    /// Returns the number of a tenant, which is recorded if it is new.
    pub(crate) async fn tenant(&self, tenant: TenantId) -> StoreResult<i32> {
        if let Some(number) = self.tenants.get(&tenant) {
            return Ok(number);
        }
        let number: i32 = sqlx::query_scalar("SELECT store.tenant_1($1)")
            .bind(tenant.as_bytes().as_slice())
            .fetch_one(&self.pool)
            .await
            .map_err(failure::of)?;
        self.tenants.insert(tenant, number);
        Ok(number)
    }
}

/// Rejects snapshots among objects: their roots would not be checked.
pub(crate) fn check_objects(objects: &[Object]) -> StoreResult<()> {
    match objects.iter().any(|one| one.key.kind == Kind::Snapshot) {
        true => Err(StoreError::Refused(
            "a snapshot cannot be written as an object".into(),
        )),
        false => Ok(()),
    }
}

#[async_trait]
impl Store for ClusterStore {
    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        self.0.get(tenant, keys).await
    }

    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let found = match self.0.find_tenant(tenant).await? {
            Some(tenant) => self.0.find(tenant, keys).await?,
            None => Default::default(),
        };
        Ok(keys.iter().map(|key| found.contains(key)).collect())
    }

    async fn put(
        &self,
        tenant: TenantId,
        writer: &Writer,
        objects: Vec<Object>,
    ) -> StoreResult<()> {
        self.0.node.check_not_lost()?;
        check_objects(&objects)?;
        let tenant = self.0.tenant(tenant).await?;
        let ahead = self.0.writers.find(tenant, writer.id());
        let ahead = ahead.ok_or_else(|| StoreError::Refused("the writer has ended".into()))?;
        let put = self.0.put(tenant, ahead, objects).await;
        self.0.node.note(put)
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        self.0.node.check_not_lost()?;
        // A commit that nothing waits for any more still protects what it needs.
        let inner = self.0.clone();
        let committing = tokio::spawn(async move { inner.commit(tenant, commit).await });
        match committing.await {
            Ok(committed) => self.0.node.note(committed),
            Err(error) => Err(StoreError::Unknown(Box::new(error))),
        }
    }

    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        self.0.snapshots(tenant, ids).await
    }

    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        self.0.list_snapshots(tenant, None, after, limit).await
    }

    async fn snapshots_since(
        &self,
        tenant: TenantId,
        recent: Recent,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let age = Some(recent.age);
        self.0.list_snapshots(tenant, age, after, limit).await
    }

    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        self.0.reference(tenant, name).await
    }

    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        self.0.list_references(tenant, prefix, after, limit).await
    }

    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64> {
        self.0.stored_bytes(tenant).await
    }

    async fn writing(&self, tenant: TenantId) -> StoreResult<Writer> {
        self.0.node.check_not_lost()?;
        let tenant = self.0.tenant(tenant).await?;
        let session = self.0.session(tenant).await?;
        let (id, registered) = self.0.writers.add(tenant, session);
        Ok(Writer::new(id, registered))
    }

    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Held>> {
        self.0.node.check_not_lost()?;
        if snapshots.is_empty() {
            return Ok(Some(Held {
                guard: Guard::new(()),
                snapshots: Vec::new(),
            }));
        }
        match self.0.find_tenant(tenant).await? {
            Some(tenant) => self.0.hold(tenant, snapshots).await,
            None => Ok(None),
        }
    }

    async fn collection(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<Box<dyn Collection + '_>> {
        self.0.node.check_not_lost()?;
        let collecting = self.0.collect(tenant, scope).await;
        Ok(Box::new(self.0.node.note(collecting)?))
    }
}
