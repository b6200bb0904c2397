//! Quarantine of workspaces that have no row in the catalog.
//!
//! The row may be missing because the catalog is the wrong one, and then the
//! workspace may hold the only copy of unmerged work. So a workspace is deleted
//! only after it had no row for [`Config::quarantine_keep`](crate::Config). Until
//! then its directory, mounts and limits stay as they are. Each workspace in
//! quarantine has a file in the directory of its tenant:
//!
//! ```text
//! WORKSPACE_ROOT/TENANT/quarantine/ID     time of the first finding, RFC 3339
//! ```
//!
//! A workspace leaves the quarantine as soon as the catalog has a row for it, or
//! when an operator restores it.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use elevo_api as api;
use elevo_catalog::Catalog;
use elevo_core::{ErrorCode, TenantId, Timestamp, WorkspaceId};

use crate::app::resources::Resources;
use crate::app::tenant_stores::TenantStores;
use crate::app::workspaces::Workspaces;
use crate::config::Config;
use crate::failure::{Failure, Result, short};
use crate::platform::audit::{Audit, Entry};
use crate::platform::clock;

/// The changes to the quarantine of a tenant, as ids of workspaces.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    /// Workspaces that were found without a row for the first time.
    enter: Vec<WorkspaceId>,
    /// Workspaces that have a row now or no longer exist.
    leave: Vec<WorkspaceId>,
    /// Workspaces whose time in the quarantine is over.
    delete: Vec<WorkspaceId>,
}

/// Compares the quarantine of a tenant (`known`, with the times of the first
/// finding) with the workspaces that have no row (`unknown`).
fn plan(
    known: &BTreeMap<WorkspaceId, Timestamp>,
    unknown: &HashSet<&WorkspaceId>,
    now: Timestamp,
    keep: Duration,
) -> Plan {
    let enter = unknown
        .iter()
        .filter(|id| !known.contains_key::<WorkspaceId>(id));
    let mut plan = Plan {
        enter: enter.map(|id| (*id).clone()).collect(),
        ..Plan::default()
    };
    for (id, found) in known {
        match unknown.contains(id) {
            false => plan.leave.push(id.clone()),
            true if clock::after(*found, keep) <= now => plan.delete.push(id.clone()),
            true => {}
        }
    }
    plan
}

/// Keeps workspaces without a row in quarantine, and lists, restores and
/// finally deletes them.
pub(crate) struct Quarantine {
    audit: Arc<Audit>,
    catalog: Arc<dyn Catalog>,
    config: Arc<Config>,
    stores: Arc<TenantStores>,
    workspaces: Arc<Workspaces>,
}

impl Quarantine {
    pub(crate) fn new(resources: &Resources, workspaces: &Arc<Workspaces>) -> Self {
        Self {
            audit: resources.audit.clone(),
            catalog: resources.catalog.clone(),
            config: resources.config.clone(),
            stores: resources.stores.clone(),
            workspaces: workspaces.clone(),
        }
    }

    /// Puts workspaces without a row into the quarantine, and deletes those
    /// whose time in the quarantine is over. `unknown` must contain all
    /// workspaces without a row: the others leave the quarantine. Returns the
    /// number of deleted workspaces.
    pub(crate) async fn add(&self, unknown: &[(TenantId, WorkspaceId)], now: Timestamp) -> u64 {
        let mut deleted = 0;
        for tenant in self.stores.known() {
            let of_tenant = unknown.iter().filter(|(owner, _)| *owner == tenant);
            let of_tenant = of_tenant.map(|(_, id)| id).collect();
            match self.quarantine_of(tenant, &of_tenant, now).await {
                Ok(count) => deleted += count,
                Err(failure) => {
                    let (cause, tenant) = (failure.summary(), tenant.to_string());
                    tracing::error!(tenant, cause, "cannot update the quarantine of a tenant");
                }
            }
        }
        if let Ok(quarantined) = self.quarantined() {
            crate::platform::metrics::quarantined(quarantined.len());
        }
        deleted
    }

    async fn quarantine_of(
        &self,
        tenant: TenantId,
        unknown: &HashSet<&WorkspaceId>,
        now: Timestamp,
    ) -> Result<u64> {
        let directory = self.quarantine_directory(tenant);
        let known = entries(&directory).map_err(|error| unreadable(&directory, &error))?;
        let plan = plan(&known, unknown, now, self.config.quarantine_keep);
        for id in &plan.enter {
            self.enter_quarantine(&directory, id, now)?;
        }
        for id in &plan.leave {
            forget(&directory, id)?;
            tracing::info!(
                workspace = id.as_str(),
                "a workspace left the quarantine: it is in the catalog again, or no longer exists"
            );
        }
        let mut deleted = 0;
        for id in &plan.delete {
            match self.stores.remove_workspace(tenant, id.clone()).await {
                Ok(()) => {
                    forget(&directory, id)?;
                    tracing::warn!(
                        workspace = id.as_str(),
                        "deleted a workspace whose time in the quarantine was over"
                    );
                    deleted += 1;
                }
                Err(failure) => {
                    let (workspace, cause) = (id.as_str(), failure.summary());
                    tracing::error!(
                        workspace,
                        cause,
                        "cannot delete a workspace from the quarantine"
                    );
                }
            }
        }
        Ok(deleted)
    }

    fn enter_quarantine(&self, directory: &Path, id: &WorkspaceId, now: Timestamp) -> Result<()> {
        let write = || {
            fs::create_dir_all(directory)?;
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            io::Write::write_all(&mut file, clock::text(now).as_bytes())?;
            file.persist(directory.join(id.as_str()))
                .map_err(|error| error.error)
        };
        write().map_err(|error| unreadable(directory, &error))?;
        let until = clock::text(clock::after(now, self.config.quarantine_keep));
        tracing::warn!(
            workspace = id.as_str(),
            until,
            "the catalog has no row for this workspace, so it is in quarantine; \
             `elevo server quarantine ls` lists it"
        );
        Ok(())
    }

    fn quarantine_directory(&self, tenant: TenantId) -> PathBuf {
        self.stores.directory(tenant).join("quarantine")
    }

    /// Returns every workspace in quarantine, with its tenant and the time it
    /// was found.
    fn quarantined(&self) -> Result<Vec<(TenantId, WorkspaceId, Timestamp)>> {
        let mut all = Vec::new();
        for tenant in self.stores.known() {
            let directory = self.quarantine_directory(tenant);
            let found = entries(&directory).map_err(|error| unreadable(&directory, &error))?;
            all.extend(found.into_iter().map(|(id, found)| (tenant, id, found)));
        }
        all.sort_by_key(|(_, _, found)| *found);
        Ok(all)
    }

    /// Returns the workspaces in quarantine, the oldest first.
    pub(crate) fn list(&self) -> Result<api::QuarantineList> {
        let keep = self.config.quarantine_keep;
        let out = |(tenant, id, found): (TenantId, WorkspaceId, Timestamp)| api::Quarantined {
            id: id.to_string(),
            tenant: tenant.to_string(),
            found_at: clock::text(found),
            deleted_at: clock::text(clock::after(found, keep)),
        };
        let items = self.quarantined()?.into_iter().map(out).collect();
        Ok(api::QuarantineList { items })
    }

    /// Moves a workspace from the quarantine to the parked workspaces.
    pub(crate) async fn restore(&self, id: &WorkspaceId) -> Result<()> {
        let mut found = self.quarantined()?.into_iter();
        let found = found.find(|(_, name, _)| name == id);
        let missing = || {
            let message = format!("the workspace `{}` is not in quarantine", short(id));
            Failure::new(ErrorCode::WorkspaceNotFound, message)
                .remediation("List the quarantine with `elevo server quarantine ls`.")
        };
        let (tenant, _, _) = found.ok_or_else(missing)?;
        let tenants = self.catalog.tenants().await?;
        if !tenants.iter().any(|known| known.id == tenant) {
            let message = format!("the catalog has no tenant {tenant}");
            return Err(Failure::new(ErrorCode::NotFound, message).remediation(
                "Stop the server, restore a catalog that has the tenant, and start with --adopt.",
            ));
        }
        // The row is added first: after a crash in between, the cleanup finds
        // the row and removes the workspace from the quarantine.
        self.workspaces.add_parked(tenant, id).await?;
        forget(&self.quarantine_directory(tenant), id)?;
        let entry = Entry {
            event: "workspace.restored",
            about: vec![
                ("workspace_id", id.as_str().into()),
                ("tenant", tenant.to_string().into()),
            ],
            ..Entry::default()
        };
        self.audit.tell(entry).await;
        Ok(())
    }
}

/// Returns the workspaces in a tenant's quarantine, with the time when each was
/// found. A file that cannot be read counts as found now, so that nothing is
/// deleted early.
fn entries(directory: &Path) -> io::Result<BTreeMap<WorkspaceId, Timestamp>> {
    let mut found = BTreeMap::new();
    let list = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        list => list?,
    };
    for entry in list {
        let entry = entry?;
        let name = entry.file_name();
        // A server that was killed may have left temporary files. Their names
        // start with a dot and are not valid ids.
        if let Some(Ok(id)) = name.to_str().map(str::parse) {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let time = clock::parse(text.trim()).unwrap_or_else(clock::now);
            found.insert(id, time);
        }
    }
    Ok(found)
}

fn forget(directory: &Path, id: &WorkspaceId) -> Result<()> {
    match fs::remove_file(directory.join(id.as_str())) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unreadable(directory, &error)),
        _ => Ok(()),
    }
}

fn unreadable(directory: &Path, error: &io::Error) -> Failure {
    let message = format!(
        "cannot read or write the quarantine in {}",
        directory.display()
    );
    Failure::new(ErrorCode::StorageFailed, message).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0).unwrap()
    }

    fn id(text: &str) -> WorkspaceId {
        text.parse().unwrap()
    }

    #[test]
    fn a_workspace_is_deleted_only_when_it_was_unknown_for_long_enough() {
        let known = BTreeMap::from([(id("old"), at(0)), (id("new"), at(5))]);
        let (old, new, first) = (id("old"), id("new"), id("first"));
        let unknown = HashSet::from([&old, &new, &first]);
        let keep = Duration::from_secs(10);
        let found = plan(&known, &unknown, at(9), keep);
        assert_eq!(found.enter, ["first"]);
        assert!(found.leave.is_empty() && found.delete.is_empty());
        let found = plan(&known, &unknown, at(10), keep);
        assert_eq!(found.delete, ["old"]);
        let found = plan(&known, &HashSet::from([&new]), at(99), keep);
        assert_eq!((found.leave, found.delete), (vec![old], vec![new]));
    }

    #[test]
    fn a_damaged_entry_counts_as_found_now() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("ws-1", "2026-01-01T00:00:00.000Z");
        write("ws-2", "nonsense");
        write(".tmp123", "");
        let found = entries(directory.path()).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["ws-1", "ws-2"]);
        assert!(found["ws-2"] > found["ws-1"]);
        assert!(entries(&directory.path().join("none")).unwrap().is_empty());
    }
}
