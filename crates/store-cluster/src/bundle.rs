//! Bundling: the packs of small commits move from PostgreSQL into S3, many in one
//! file.
//!
//! ```text
//! the node with the lease    tenants with enough packs that are old enough
//! for each of them           reads packs; stages, uploads and publishes a file
//!                            with their bytes one after the other
//! ```
//!
//! Entries of the index name packs, so they do not change. Two processes may
//! bundle the same packs: the second one finds that they have moved, and its file
//! stays unused. Nothing is bundled during a collection, which counts the objects
//! of each file.

use bytes::BytesMut;
use elevo_engine::{StoreError, StoreResult};

use crate::bucket::FileKey;
use crate::failure;
use crate::options::BundleOptions;
use crate::steps::{Step, reached};
use crate::store::Inner;

/// Maximum size of a file, unless a single pack is larger.
const FILE_BYTES: i64 = 16 << 20;
/// Maximum number of packs in a file.
const FILE_PACKS: i64 = 4096;
/// Tenants of one turn.
const TENANTS: i64 = 1000;

const DUE: &str = "SELECT tenant FROM store.packs WHERE file IS NULL AND size > 0 AND made <= now() - $1 \
    GROUP BY tenant HAVING sum(size) >= $2 OR min(made) <= now() - $3 ORDER BY min(made) LIMIT $4";

/// The oldest packs of a tenant, up to the size of a file.
const OLDEST: &str = "SELECT p.id, p.bytes FROM ( \
        SELECT id, sum(size) OVER (ORDER BY made, id) AS total, size, \
            row_number() OVER (ORDER BY made, id) AS place \
        FROM store.packs \
        WHERE tenant = $1 AND file IS NULL AND size > 0 AND live > 0 AND made <= now() - $2) AS old \
    JOIN store.packs AS p ON p.tenant = $1 AND p.id = old.id \
    WHERE (old.total <= $3 OR old.place = 1) AND old.place <= $4 AND p.bytes IS NOT NULL \
    ORDER BY old.place";

impl Inner {
    /// Bundles the packs of all tenants that have enough. Returns the number of
    /// files. An error of one tenant is returned after the others.
    pub(crate) async fn bundle_due(&self) -> StoreResult<usize> {
        let options = &self.options.bundle;
        let due: Vec<i32> = sqlx::query_scalar(DUE)
            .bind(options.age)
            .bind(options.bytes as i64)
            .bind(options.oldest)
            .bind(TENANTS)
            .fetch_all(&self.pool)
            .await
            .map_err(failure::of)?;
        let (mut files, mut failed) = (0, None);
        for tenant in due {
            match self.bundle_tenant(tenant, options).await {
                Ok(bundled) => files += bundled,
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(files),
        }
    }

    async fn bundle_tenant(&self, tenant: i32, options: &BundleOptions) -> StoreResult<usize> {
        let mut files = 0;
        loop {
            let packs: Vec<(i64, Vec<u8>)> = sqlx::query_as(OLDEST)
                .bind(tenant)
                .bind(options.age)
                .bind(FILE_BYTES)
                .bind(FILE_PACKS)
                .fetch_all(&self.pool)
                .await
                .map_err(failure::of)?;
            let bytes: usize = packs.iter().map(|(_, bytes)| bytes.len()).sum();
            let is_enough = files == 0 || bytes as u64 >= options.bytes;
            if packs.is_empty() || !is_enough || !self.bundle(tenant, packs).await? {
                return Ok(files);
            }
            files += 1;
        }
    }

    /// Moves packs into a file. Returns `false` if another process was faster, or
    /// a collection is running.
    async fn bundle(&self, tenant: i32, packs: Vec<(i64, Vec<u8>)>) -> StoreResult<bool> {
        let mut ids = Vec::with_capacity(packs.len());
        let mut bases = Vec::with_capacity(packs.len());
        let mut bytes = BytesMut::new();
        for (id, pack) in packs {
            ids.push(id);
            bases.push(bytes.len() as i64);
            bytes.extend_from_slice(&pack);
        }
        let (file, key) = (self.ids.next(), FileKey::random());
        self.stage(tenant, &[(file, key)]).await?;
        reached(Step::BundleStaged);
        let size = bytes.len() as i64;
        self.bucket.put(tenant, key, bytes.freeze()).await?;
        reached(Step::BundleUploaded);
        let (ids, bases) = (&ids, &bases);
        let bundled = self.settled(move || {
            sqlx::query("SELECT store.bundle_1($1, $2, $3, $4, $5, $6)")
                .bind(self.node.id)
                .bind(tenant)
                .bind(file)
                .bind(size)
                .bind(ids)
                .bind(bases)
                .execute(&self.pool)
        });
        match bundled.await {
            Ok(()) => {
                reached(Step::Bundled);
                Ok(true)
            }
            Err(StoreError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
