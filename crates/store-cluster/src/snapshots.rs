//! Snapshots and refs.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{StoreError, StoreResult};
use elevo_objects::{Snapshot, SnapshotId};

use crate::failure;
use crate::store::Inner;

impl Inner {
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
            found.insert(failure::id(&id)?, decode_snapshot(&record.into())?);
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
}

pub(crate) fn decode_snapshot(record: &Bytes) -> StoreResult<Snapshot> {
    let decoded = Snapshot::decode(record);
    decoded.map_err(|error| StoreError::Damaged(format!("a snapshot: {error}")))
}

pub(crate) fn snapshot_ids(ids: &[SnapshotId]) -> Vec<Vec<u8>> {
    ids.iter().map(|id| id.0.as_bytes().to_vec()).collect()
}
