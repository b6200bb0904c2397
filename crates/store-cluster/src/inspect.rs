//! Inspection and repair of a whole store.

use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_engine::store::check_reference_name;
use elevo_engine::{Inspect, Object, RowRepair, StoreError, StoreResult};
use elevo_objects::{Hash, Kind, Snapshot};

use crate::commit::encode;
use crate::failure::{self, valid};
use crate::pack::code_of_kind;
use crate::store::{ClusterStore, Inner, check_objects};
use crate::upload::Columns;

#[async_trait]
impl Inspect for ClusterStore {
    async fn list_objects(
        &self,
        tenant: TenantId,
        kind: Kind,
        after: Option<Hash>,
        limit: usize,
    ) -> StoreResult<Vec<Hash>> {
        let Some(tenant) = self.0.find_tenant(tenant).await? else {
            return Ok(Vec::new());
        };
        let after = after.map(|hash| hash.as_bytes().to_vec());
        let rows: Vec<Vec<u8>> = sqlx::query_scalar(
            "SELECT hash FROM store.objects WHERE tenant = $1 AND hash > $2 AND kind = $3 \
             ORDER BY hash LIMIT $4",
        )
        .bind(tenant)
        .bind(after.unwrap_or_default())
        .bind(code_of_kind(kind))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&self.0.pool)
        .await
        .map_err(failure::of)?;
        let read = |row: Vec<u8>| {
            let hash = row.try_into().ok().map(Hash::from_bytes);
            valid(hash, "the hash of an object")
        };
        rows.into_iter().map(read).collect()
    }

    async fn repair_rows(&self, tenant: TenantId, repair: RowRepair) -> StoreResult<()> {
        self.0.node.check_not_lost()?;
        check_objects(&repair.objects)?;
        repair.objects.iter().try_for_each(check_hash)?;
        let names = repair.references.iter().map(|(name, _)| name);
        names
            .into_iter()
            .try_for_each(|name| check_reference_name(name))?;
        let tenant = self.0.tenant(tenant).await?;
        let repaired = self.0.repair(tenant, &repair).await;
        // Objects have moved or are gone.
        self.0.node.places.forget(tenant);
        self.0.node.note(repaired)
    }
}

fn check_hash(object: &Object) -> StoreResult<()> {
    match object.key.kind.key(&object.data) == object.key {
        true => Ok(()),
        false => Err(StoreError::Refused(format!(
            "the bytes of {:?} do not match its hash",
            object.key
        ))),
    }
}

impl ClusterStore {
    /// Returns the tenants that have stored anything, also if nothing of it is
    /// left.
    pub async fn tenants(&self) -> StoreResult<Vec<TenantId>> {
        let ids: Vec<Vec<u8>> = sqlx::query_scalar("SELECT id FROM store.tenants ORDER BY id")
            .fetch_all(&self.0.pool)
            .await
            .map_err(failure::of)?;
        let read = |id: Vec<u8>| valid(id.try_into().ok(), "the id of a tenant").map(TenantId::new);
        ids.into_iter().map(read).collect()
    }
}

impl Inner {
    /// Uploads the objects, and makes all changes in one transaction. A repetition
    /// is harmless.
    async fn repair(&self, tenant: i32, repair: &RowRepair) -> StoreResult<()> {
        let snapshots = encode(&repair.snapshots)?;
        let _session = self.session(tenant).await?;
        let uploaded = self.upload_staged(tenant, &repair.objects).await?;
        let replaced = repair.objects.iter().map(|object| &object.key);
        let gone = replaced.chain(&repair.remove);
        let gone: Vec<_> = gone.map(|key| key.hash.as_bytes().to_vec()).collect();
        let mut change = self.pool.begin("BEGIN").await.map_err(failure::of)?;
        let number: i32 = sqlx::query_scalar("SELECT number FROM store.enter_1($1, $2)")
            .bind(self.node.id)
            .bind(tenant)
            .fetch_one(&mut *change)
            .await
            .map_err(failure::of)?;
        let delete = sqlx::query("SELECT store.repair_1($1, $2)")
            .bind(tenant)
            .bind(gone);
        delete.execute(&mut *change).await.map_err(failure::of)?;
        for (file, pack) in &uploaded {
            let columns = Columns::of(pack);
            let publish = self.publication(tenant, *file, (self.ids.next(), pack), &columns);
            publish.execute(&mut *change).await.map_err(failure::of)?;
        }
        for ((id, record), Snapshot { tree, .. }) in snapshots.iter().zip(&repair.snapshots) {
            let insert = sqlx::query(
                "INSERT INTO store.snapshots (tenant, seen, id, root, record) \
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, id) DO UPDATE SET \
                 seen = excluded.seen, condemned = NULL, root = excluded.root, record = excluded.record",
            )
            .bind(tenant)
            .bind(number)
            .bind(id.0.as_bytes().to_vec())
            .bind(tree.root.map(|root| root.as_bytes().to_vec()))
            .bind(record);
            insert.execute(&mut *change).await.map_err(failure::of)?;
        }
        for (name, target) in &repair.references {
            let set = sqlx::query(
                "INSERT INTO store.refs (tenant, name, snapshot) VALUES ($1, $2, $3) \
                 ON CONFLICT (tenant, name) DO UPDATE SET snapshot = excluded.snapshot",
            )
            .bind(tenant)
            .bind(name)
            .bind(target.0.as_bytes().to_vec());
            set.execute(&mut *change).await.map_err(failure::of)?;
        }
        change.commit().await.map_err(failure::of)
    }
}
