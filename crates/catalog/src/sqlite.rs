//! The catalog in one SQLite file.
//!
//! One connection writes, so that writers of this process queue instead of
//! failing; several others read concurrently (WAL). A change is a separate
//! transaction, or a savepoint in one that it shares with other waiting changes.
//! It takes the write lock when it begins, so that the rows it reads cannot
//! change until it ends, and is synced when it ends (`synchronous=FULL`).
//! Other processes may open the same file: they wait for one another.

mod database;
mod erasure;
mod events;
mod failure;
mod group;
mod keys;
mod landing;
mod lists;
mod log;
mod look;
mod owners;
mod projects;
mod quotas;
mod removal;
mod requests;
mod retention;
mod reviews;
mod roots;
mod rows;
mod sandboxes;
mod settings;
mod shared;
mod tags;
mod templates;
#[cfg(test)]
mod tests;
mod unsettled;
mod versions;
mod webhooks;
mod workspaces;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use elevo_core::{SandboxState, TenantId, Timestamp};

use self::database::Database;
pub use self::look::{ADOPTING, FoundCatalog, GENERATION, INSTALLATION};
use crate::catalog::Catalog;
use crate::change::SandboxChange;
use crate::error::Result;
use crate::query::{AddLimits, Page, SandboxQuery};
use crate::records::{Agent, ApiKey, Sandbox, Template, Tenant};
use crate::request::{Begun, IdempotentRequest, RequestRun};

/// Options for opening a catalog in a file.
#[derive(Clone, Copy, Debug)]
pub struct SqliteOptions {
    /// Number of connections that read.
    pub readers: u32,
    /// Time that a call waits before it fails with `Busy`: for a connection, and
    /// once more for other processes.
    pub wait: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            readers: 4,
            wait: Duration::from_secs(10),
        }
    }
}

/// A [`Catalog`] in one SQLite file. Needs a Tokio runtime.
#[derive(Debug)]
pub struct SqliteCatalog {
    database: Database,
}

impl SqliteCatalog {
    /// Opens the catalog in `file`, creates it if there is none, and migrates it
    /// to the current format. Only the owner can read the file.
    pub async fn open(file: &Path, options: &SqliteOptions) -> Result<Self> {
        let database = Database::open(file, options).await?;
        Ok(Self { database })
    }

    /// Reads the catalog in `file` without changing it. Returns `None` if there
    /// is none. Nothing may write to the file during the call.
    pub async fn find(file: &Path) -> Result<Option<FoundCatalog>> {
        look::find(file).await
    }

    /// Copies the catalog in `file`, of any format, to `to`, where no file may
    /// exist. Nothing may write to the file during the call.
    pub async fn copy_file(file: &Path, to: &Path) -> Result<()> {
        look::copy(file, to).await
    }

    /// Copies this catalog, as it is at one moment of the call, to `to`, where no
    /// file may exist. Changes can continue during the call. The copy is synced
    /// when this returns, its directory entry may not be.
    pub async fn copy_to(&self, to: &Path) -> Result<()> {
        let reader = self.database.readers().acquire().await;
        let mut reader = reader.map_err(failure::of)?;
        look::copy_from(&mut reader, to).await
    }

    /// Waits for running changes and closes the file. Later calls fail. Without
    /// it nothing is lost; the next start reads the write-ahead log.
    pub async fn close(&self) {
        self.database.close().await;
    }
}

#[async_trait]
impl Catalog for SqliteCatalog {
    async fn add_tenant(&self, tenant: &Tenant) -> Result<()> {
        owners::add_tenant(&self.database, tenant).await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>> {
        owners::tenants(&self.database).await
    }

    async fn tenant(&self, id: TenantId) -> Result<Option<Tenant>> {
        owners::tenant(&self.database, id).await
    }

    async fn change_tenant(&self, tenant: &Tenant) -> Result<bool> {
        owners::change_tenant(&self.database, tenant).await
    }

    async fn begin_erasure(&self, id: TenantId, at: Timestamp) -> Result<Option<Tenant>> {
        erasure::begin(&self.database, id, at).await
    }

    async fn clear_tenant(&self, id: TenantId) -> Result<bool> {
        erasure::clear(&self.database, id).await
    }

    async fn remove_tenant(&self, id: TenantId) -> Result<bool> {
        erasure::remove(&self.database, id).await
    }

    async fn add_agent(&self, agent: &Agent) -> Result<()> {
        owners::add_agent(&self.database, agent).await
    }

    async fn agents(&self, tenant: TenantId) -> Result<Vec<Agent>> {
        owners::agents(&self.database, tenant).await
    }

    async fn agent(&self, tenant: TenantId, id: &str) -> Result<Option<Agent>> {
        owners::agent(&self.database, tenant, id).await
    }

    async fn add_key(&self, key: &ApiKey) -> Result<()> {
        keys::add(&self.database, key).await
    }

    async fn key_by_hash(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>> {
        keys::by_hash(&self.database, hash).await
    }

    async fn key(&self, tenant: TenantId, id: &str) -> Result<Option<ApiKey>> {
        keys::get(&self.database, tenant, id).await
    }

    async fn keys(&self, tenant: TenantId) -> Result<Vec<ApiKey>> {
        keys::list(&self.database, tenant).await
    }

    async fn revoke_key(&self, tenant: TenantId, id: &str, at: Timestamp) -> Result<bool> {
        keys::revoke(&self.database, tenant, id, at).await
    }

    async fn add_sandbox(&self, sandbox: &Sandbox, limits: AddLimits) -> Result<()> {
        sandboxes::add(&self.database, std::slice::from_ref(sandbox), limits).await
    }

    async fn add_sandboxes(&self, sandboxes: &[Sandbox], limits: AddLimits) -> Result<()> {
        sandboxes::add(&self.database, sandboxes, limits).await
    }

    async fn sandbox(&self, tenant: TenantId, id: &str) -> Result<Option<Sandbox>> {
        let found = sandboxes::get(&self.database, id).await?;
        Ok(found.filter(|sandbox| sandbox.tenant == tenant))
    }

    async fn sandbox_of_any_tenant(&self, id: &str) -> Result<Option<Sandbox>> {
        sandboxes::get(&self.database, id).await
    }

    async fn sandbox_of_workspace(
        &self,
        tenant: TenantId,
        workspace: &str,
    ) -> Result<Option<Sandbox>> {
        sandboxes::of_workspace(&self.database, tenant, workspace).await
    }

    async fn sandboxes(&self, query: &SandboxQuery) -> Result<Page<Sandbox>> {
        lists::sandboxes(&self.database, query).await
    }

    async fn expired(&self, now: Timestamp, limit: u32) -> Result<Vec<Sandbox>> {
        lists::expired(&self.database, now, limit).await
    }

    async fn change_sandbox(
        &self,
        id: &str,
        change: &SandboxChange,
        now: Timestamp,
    ) -> Result<Sandbox> {
        sandboxes::change(&self.database, id, change, now).await
    }

    async fn remove_sandbox(&self, id: &str, now: Timestamp) -> Result<bool> {
        sandboxes::remove(&self.database, id, now).await
    }

    async fn count_by_state(
        &self,
        tenant: Option<TenantId>,
    ) -> Result<BTreeMap<SandboxState, u64>> {
        lists::count_by_state(&self.database, tenant).await
    }

    async fn put_template(&self, template: &Template) -> Result<()> {
        templates::put(&self.database, template).await
    }

    async fn template(&self, name: &str) -> Result<Option<Template>> {
        templates::get(&self.database, name).await
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        templates::list(&self.database).await
    }

    async fn remove_template(&self, name: &str) -> Result<bool> {
        templates::remove(&self.database, name).await
    }

    async fn begin(&self, request: &IdempotentRequest) -> Result<Begun> {
        requests::begin(&self.database, request).await
    }

    async fn note_made(&self, run: &RequestRun, made: &str) -> Result<()> {
        requests::note_made(&self.database, run, made).await
    }

    async fn finish(&self, run: &RequestRun, status: u16, body: Option<&[u8]>) -> Result<()> {
        requests::finish(&self.database, run, status, body).await
    }

    async fn release(&self, run: &RequestRun) -> Result<()> {
        requests::release(&self.database, run).await
    }

    async fn abandon(&self, run: &RequestRun) -> Result<()> {
        requests::abandon(&self.database, run).await
    }

    async fn release_all_but(&self, alive: &[&str]) -> Result<u64> {
        requests::release_all_but(&self.database, alive).await
    }

    async fn forget_idempotent(&self, now: Timestamp) -> Result<u64> {
        requests::forget(&self.database, now).await
    }

    async fn move_expiry(&self, by: i64, setting: &str, value: &str) -> Result<()> {
        settings::move_expiry(&self.database, by, setting, value).await
    }

    async fn setting(&self, name: &str) -> Result<Option<String>> {
        settings::get(&self.database, name).await
    }

    async fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        settings::set(&self.database, name, value).await
    }

    async fn remove_setting(&self, name: &str) -> Result<bool> {
        settings::remove(&self.database, name).await
    }

    async fn check(&self) -> Result<()> {
        self.database.check().await
    }
}
