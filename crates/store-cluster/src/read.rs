//! Reading.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{Guard, Held, StoreError, StoreResult};
use elevo_objects::{Hash, ObjectKey, Snapshot, SnapshotId};
use futures::future::try_join_all;
use tokio::time::sleep;

use crate::bucket::FileKey;
use crate::failure::{self, valid};
use crate::pack;
use crate::store::Inner;

/// Pause before a hold looks again at a snapshot that a collection is about to
/// decide on.
const UNDECIDED: Duration = Duration::from_millis(20);

/// The place of an object: its stored bytes, or a range of a file.
#[derive(sqlx::FromRow)]
struct Place {
    hash: Vec<u8>,
    kind: i8,
    start: i32,
    size: i32,
    base: i64,
    file: Option<Vec<u8>>,
    bytes: Option<Vec<u8>>,
}

/// An object in a file.
struct Wanted {
    key: ObjectKey,
    range: Range<u64>,
}

const PLACES: &str = "SELECT o.hash, o.kind, o.start, o.size, p.base, f.key AS file, \
         substring(p.bytes FROM o.start + 1 FOR o.size) AS bytes \
     FROM store.objects AS o \
     JOIN store.packs AS p ON p.tenant = o.tenant AND p.id = o.pack \
     LEFT JOIN store.files AS f ON f.id = p.file \
     WHERE o.tenant = $1 AND o.hash = ANY ($2)";

impl Inner {
    pub(crate) async fn get(
        &self,
        tenant: TenantId,
        keys: &[ObjectKey],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let Some(tenant) = self.find_tenant(tenant).await? else {
            return Ok(vec![None; keys.len()]);
        };
        let mut found = self.writers.pending(tenant, keys);
        let missing = |found: &HashMap<ObjectKey, Bytes>| -> Vec<ObjectKey> {
            let missing = keys.iter().filter(|key| !found.contains_key(key));
            missing
                .copied()
                .collect::<HashSet<_>>()
                .into_iter()
                .collect()
        };
        // A file that is gone: its objects may have moved since they were
        // located.
        for is_last in [false, true] {
            let rest = missing(&found);
            if rest.is_empty() {
                break;
            }
            let (read, gone) = self.read(tenant, &rest).await?;
            found.extend(read);
            let Some(file) = gone else { break };
            if is_last {
                return Err(StoreError::Damaged(format!(
                    "the file {file} is missing or too short"
                )));
            }
        }
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    /// Reads objects, and returns one of the files that do not have what they
    /// should.
    async fn read(
        &self,
        tenant: i32,
        keys: &[ObjectKey],
    ) -> StoreResult<(HashMap<ObjectKey, Bytes>, Option<FileKey>)> {
        let places: Vec<Place> = sqlx::query_as(PLACES)
            .bind(tenant)
            .bind(hashes(keys))
            .fetch_all(&self.pool)
            .await
            .map_err(failure::of)?;
        let wanted: HashSet<_> = keys.iter().copied().collect();
        let mut found = HashMap::with_capacity(places.len());
        let mut files: HashMap<FileKey, Vec<Wanted>> = HashMap::new();
        for place in places {
            let Some(key) = place.key()?.filter(|key| wanted.contains(key)) else {
                continue;
            };
            if let Some(stored) = &place.bytes {
                found.insert(key, decode(&key, stored)?);
                continue;
            }
            let file = place.file.as_deref().and_then(FileKey::read);
            let file = valid(file, "a pack without bytes and without a file")?;
            let start = place.base as u64 + place.start as u64;
            let range = start..start + place.size as u64;
            files.entry(file).or_default().push(Wanted { key, range });
        }
        let reads = files.into_iter().map(|(file, wanted)| async move {
            let ranges: Vec<_> = wanted.iter().map(|one| one.range.clone()).collect();
            let read = self.bucket.ranges(tenant, file, &ranges).await?;
            Ok::<_, StoreError>((file, wanted, read))
        });
        let mut gone = None;
        for (file, wanted, read) in try_join_all(reads).await? {
            let Some(read) = read else {
                gone = Some(file);
                continue;
            };
            for (wanted, stored) in wanted.iter().zip(read) {
                found.insert(wanted.key, decode(&wanted.key, &stored)?);
            }
        }
        Ok((found, gone))
    }

    /// Returns which objects are stored.
    pub(crate) async fn find(
        &self,
        tenant: i32,
        keys: &[ObjectKey],
    ) -> StoreResult<HashSet<ObjectKey>> {
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        let rows: Result<Vec<(Vec<u8>, i8)>, _> =
            sqlx::query_as("SELECT hash, kind FROM store.find_1($1, $2, $3)")
                .bind(self.node.id)
                .bind(tenant)
                .bind(hashes(keys))
                .fetch_all(&self.pool)
                .await
                .map_err(failure::of);
        let rows = self.node.note(rows)?;
        let keys = rows.iter().map(|(hash, kind)| object_key(hash, *kind));
        let found: StoreResult<Vec<_>> = keys.collect();
        Ok(found?.into_iter().flatten().collect())
    }

    pub(crate) async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        let Some(tenant) = self.find_tenant(tenant).await? else {
            return Ok(vec![None; ids.len()]);
        };
        let rows: Vec<(Vec<u8>, Vec<u8>)> = sqlx::query_as(
            "SELECT id, record FROM store.snapshots WHERE tenant = $1 AND id = ANY ($2)",
        )
        .bind(tenant)
        .bind(snapshot_ids(ids))
        .fetch_all(&self.pool)
        .await
        .map_err(failure::of)?;
        let mut found = HashMap::with_capacity(rows.len());
        for (id, record) in rows {
            found.insert(failure::id(&id)?, decode_snapshot(record)?);
        }
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    /// Lists snapshots, or those that were stored in the last `age`.
    pub(crate) async fn list_snapshots(
        &self,
        tenant: TenantId,
        age: Option<Duration>,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let Some(tenant) = self.find_tenant(tenant).await? else {
            return Ok(Vec::new());
        };
        // PostgreSQL's interval has microseconds.
        let age = age.map(|age| Duration::from_micros(age.as_micros() as u64));
        let after = after.map(|id| id.0.as_bytes().to_vec());
        let ids: Vec<Vec<u8>> = sqlx::query_scalar(
            "SELECT id FROM store.snapshots WHERE tenant = $1 AND id > $2 \
             AND ($3::interval IS NULL OR made >= now() - $3) ORDER BY id LIMIT $4",
        )
        .bind(tenant)
        .bind(after.unwrap_or_default())
        .bind(age)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&self.pool)
        .await
        .map_err(failure::of)?;
        ids.iter().map(|id| failure::id(id)).collect()
    }

    pub(crate) async fn reference(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> StoreResult<Option<SnapshotId>> {
        // PostgreSQL rejects a text with this character, and no ref has one.
        let tenant = self.find_tenant(tenant).await?;
        let Some(tenant) = tenant.filter(|_| !name.contains('\0')) else {
            return Ok(None);
        };
        let id: Option<Vec<u8>> =
            sqlx::query_scalar("SELECT snapshot FROM store.refs WHERE tenant = $1 AND name = $2")
                .bind(tenant)
                .bind(name)
                .fetch_optional(&self.pool)
                .await
                .map_err(failure::of)?;
        id.map(|id| failure::id(&id)).transpose()
    }

    pub(crate) async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        let is_possible = !prefix.contains('\0') && !after.is_some_and(|name| name.contains('\0'));
        let tenant = self.find_tenant(tenant).await?;
        let Some(tenant) = tenant.filter(|_| is_possible) else {
            return Ok(Vec::new());
        };
        let rows: Vec<(String, Vec<u8>)> = sqlx::query_as(
            "SELECT name, snapshot FROM store.refs WHERE tenant = $1 AND name >= $2 \
             AND starts_with(name, $2) AND ($3::text IS NULL OR name > $3) ORDER BY name LIMIT $4",
        )
        .bind(tenant)
        .bind(prefix)
        .bind(after)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&self.pool)
        .await
        .map_err(failure::of)?;
        let read = |(name, id): (String, Vec<u8>)| Ok((name, failure::id(&id)?));
        rows.into_iter().map(read).collect()
    }

    pub(crate) async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64> {
        let Some(tenant) = self.find_tenant(tenant).await? else {
            return Ok(0);
        };
        let bytes: i64 = sqlx::query_scalar(
            "SELECT (SELECT coalesce(sum(live), 0) FROM store.files WHERE tenant = $1)::int8 \
             + (SELECT coalesce(sum(size::int8 * live / greatest(objects, 1)), 0) \
                FROM store.packs WHERE tenant = $1 AND file IS NULL)::int8",
        )
        .bind(tenant)
        .fetch_one(&self.pool)
        .await
        .map_err(failure::of)?;
        Ok(bytes.try_into().unwrap_or_default())
    }

    pub(crate) async fn hold(&self, tenant: i32, ids: &[SnapshotId]) -> StoreResult<Option<Held>> {
        // Registered first: a collection that condemns one of them later asks
        // this process.
        let holding = self.node.guards.hold(tenant, ids);
        loop {
            let rows: Vec<(Vec<u8>, Vec<u8>, bool, bool)> = sqlx::query_as(
                "SELECT s.id, s.record, s.condemned IS NOT NULL, gc.phase <> 'm' \
                 FROM store.snapshots AS s JOIN store.gc ON gc.tenant = s.tenant \
                 WHERE s.tenant = $1 AND s.id = ANY ($2)",
            )
            .bind(tenant)
            .bind(snapshot_ids(ids))
            .fetch_all(&self.pool)
            .await
            .map_err(failure::of)?;
            let mut is_undecided = false;
            let mut found = HashMap::with_capacity(rows.len());
            for (id, record, is_condemned, is_sweeping) in rows {
                match (is_condemned, is_sweeping) {
                    (true, true) => return Ok(None),
                    // Another process may veto.
                    (true, false) => is_undecided = true,
                    (false, _) => {
                        found.insert(failure::id(&id)?, decode_snapshot(record)?);
                    }
                }
            }
            if is_undecided {
                sleep(UNDECIDED).await;
                continue;
            }
            let snapshots: Option<Vec<_>> = ids.iter().map(|id| found.get(id).cloned()).collect();
            return Ok(snapshots.map(|snapshots| Held {
                guard: Guard::new(holding),
                snapshots,
            }));
        }
    }
}

impl Place {
    fn key(&self) -> StoreResult<Option<ObjectKey>> {
        object_key(&self.hash, self.kind)
    }
}

fn object_key(hash: &[u8], kind: i8) -> StoreResult<Option<ObjectKey>> {
    let hash = hash.try_into().ok().map(Hash::from_bytes);
    let hash = valid(hash, "the hash of an object")?;
    Ok(pack::kind_of_code(kind).map(|kind| ObjectKey { kind, hash }))
}

fn decode(key: &ObjectKey, stored: &[u8]) -> StoreResult<Bytes> {
    pack::object(key, stored).ok_or_else(|| {
        StoreError::Damaged(format!(
            "{:?} {}: its stored bytes do not match its hash",
            key.kind, key.hash
        ))
    })
}

fn decode_snapshot(record: Vec<u8>) -> StoreResult<Snapshot> {
    let decoded = Snapshot::decode(&record.into());
    decoded.map_err(|error| StoreError::Damaged(format!("a snapshot: {error}")))
}

pub(crate) fn hashes(keys: &[ObjectKey]) -> Vec<Vec<u8>> {
    keys.iter()
        .map(|key| key.hash.as_bytes().to_vec())
        .collect()
}

pub(crate) fn snapshot_ids(ids: &[SnapshotId]) -> Vec<Vec<u8>> {
    ids.iter().map(|id| id.0.as_bytes().to_vec()).collect()
}
