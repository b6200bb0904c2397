//! Sandboxes: lists them, and returns their logs and statistics. The submodules
//! create, start, stop, fork and delete them.

pub(crate) mod change;
pub(crate) mod containers;
pub(crate) mod create;
pub(crate) mod forks;
pub(crate) mod freezer;
pub(crate) mod lifecycle;
pub(crate) mod locks;
pub(crate) mod lost;
pub(crate) mod makers;
pub(crate) mod metadata;
pub(crate) mod new_sandbox;
pub(crate) mod pool;
pub(crate) mod reasons;
pub(crate) mod retries;
pub(crate) mod rows;
pub(crate) mod spec;
pub(crate) mod starts;
pub(crate) mod templates;
pub(crate) mod warm_pools;

use std::collections::BTreeMap;
use std::sync::Arc;

use elevo_agent_link::AgentLink;
use elevo_agent_link::AgentLinks;
use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::{NodeId, Sandbox, SandboxQuery};
use elevo_core::{ErrorCode, SandboxId, SandboxState};
use elevo_sandbox::SandboxRuntime;

use crate::app::access::here::check_node;
use crate::app::access::names::Names;
use crate::app::access::principal::Principal;
use crate::app::access::secrets::Secrets;
use crate::app::pages::{self, PageQuery};
use crate::app::resources::Resources;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::sandboxes::rows::{container_of, wrong_state};
use crate::app::sandboxes::spec::Spec;
use crate::app::sandboxes::starts::Starts;
use crate::app::sandboxes::warm_pools::WarmPools;
use crate::app::snapshots::Snapshots;
use crate::app::tenant_stores::TenantStores;
use crate::app::timekeeping::Timekeeper;
use crate::app::workspaces::Workspaces;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// The filters of a list of sandboxes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListQuery {
    /// Number of the page, if the query has no cursor.
    pub(crate) number: u32,
    pub(crate) page: PageQuery,
    pub(crate) state: Option<SandboxState>,
    pub(crate) name_prefix: Option<String>,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// The part of a sandbox's log that a client requests.
#[derive(Clone, Debug)]
pub(crate) struct LogsQuery {
    pub(crate) tail: u32,
    pub(crate) since: Option<elevo_core::Timestamp>,
    pub(crate) until: Option<elevo_core::Timestamp>,
}

/// Serves the requests of clients for sandboxes: checks rights and limits, and
/// lets `Starts` create and start containers.
pub(crate) struct Sandboxes {
    catalog: Arc<dyn Catalog>,
    node: NodeId,
    config: Arc<Config>,
    links: AgentLinks,
    locks: Arc<SandboxLocks>,
    names: Arc<Names>,
    runtime: Arc<dyn SandboxRuntime>,
    stores: Arc<TenantStores>,
    time: Arc<Timekeeper>,
    pools: Arc<WarmPools>,
    secrets: Arc<Secrets>,
    snapshots: Arc<Snapshots>,
    starts: Arc<Starts>,
    workspaces: Arc<Workspaces>,
}

impl Sandboxes {
    pub(crate) fn new(
        resources: &Resources,
        pools: &Arc<WarmPools>,
        secrets: &Arc<Secrets>,
        snapshots: &Arc<Snapshots>,
        starts: &Arc<Starts>,
        workspaces: &Arc<Workspaces>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            node: resources.node.id,
            config: resources.config.clone(),
            links: resources.links.clone(),
            locks: resources.locks.clone(),
            names: resources.names.clone(),
            pools: pools.clone(),
            runtime: resources.runtime.clone(),
            secrets: secrets.clone(),
            snapshots: snapshots.clone(),
            starts: starts.clone(),
            stores: resources.stores.clone(),
            time: resources.time.clone(),
            workspaces: workspaces.clone(),
        }
    }

    pub(crate) async fn get(&self, who: &Principal, id: &SandboxId) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesRead)?;
        spec::out(&self.visible(who, id).await?)
    }

    pub(crate) async fn list(&self, who: &Principal, query: ListQuery) -> Result<api::SandboxPage> {
        who.needs(Scope::SandboxesRead)?;
        let limit = query.page.limit;
        let found = self
            .catalog
            .sandboxes(&SandboxQuery {
                tenant: Some(who.tenant),
                agent: who.agent.clone(),
                state: query.state,
                node: None,
                name_prefix: query.name_prefix,
                metadata: query.metadata,
                removing: Some(false),
                after: query.page.position()?,
                page: query.number,
                limit,
            })
            .await?;
        Ok(api::SandboxPage {
            items: found.items.iter().map(spec::out).collect::<Result<_>>()?,
            total: found.total,
            page: query.number,
            limit,
            next: pages::next(&found.items, limit, Sandbox::position),
        })
    }

    pub(crate) async fn logs(
        &self,
        who: &Principal,
        id: &SandboxId,
        query: LogsQuery,
    ) -> Result<api::Logs> {
        who.needs(Scope::SandboxesRead)?;
        let sandbox = self.visible(who, id).await?;
        let Some(container) = container_of(&sandbox) else {
            return Ok(api::Logs {
                logs: String::new(),
                truncated: false,
            });
        };
        let query = elevo_sandbox::LogsQuery {
            tail: Some(query.tail),
            since: query.since,
            until: query.until,
            limit: 1 << 20,
        };
        let logs = self.runtime.logs(&container, &query).await?;
        Ok(api::Logs {
            logs: String::from_utf8_lossy(&logs.bytes).into_owned(),
            truncated: logs.truncated,
        })
    }

    pub(crate) async fn stats(&self, who: &Principal, id: &SandboxId) -> Result<api::SandboxStats> {
        who.needs(Scope::SandboxesRead)?;
        let sandbox = self.visible(who, id).await?;
        let spec = Spec::of(&sandbox)?;
        let container = container_of(&sandbox);
        let container = container.filter(|_| sandbox.state == SandboxState::Running);
        let container = container.ok_or_else(|| wrong_state(&sandbox, "be measured"))?;
        let stats = self.runtime.stats(&container).await?;
        let workspace = sandbox.workspace.clone();
        let usage = self.stores.with(sandbox.tenant, move |workspaces| {
            Ok(workspaces.limit_usage(&workspace)?)
        });
        let usage = usage.await?;
        let limit = stats.memory_limit.max(1);
        Ok(api::SandboxStats {
            sandbox_id: sandbox.id.to_string(),
            cpu: api::StatsCpu {
                usage: (stats.cpu_percent * 1000.0 / f64::from(spec.cpu)).clamp(0.0, 100.0),
                limit: format!("{}", f64::from(spec.cpu) / 1000.0),
            },
            memory: api::StatsMemory {
                usage: stats.memory_usage,
                limit: stats.memory_limit,
                percent: stats.memory_usage as f64 * 100.0 / limit as f64,
            },
            disk: api::StatsDisk {
                usage: usage.as_ref().map(|usage| usage.used),
                limit: spec.disk,
            },
            network: api::StatsNetwork {
                rx_bytes: stats.rx_bytes,
                tx_bytes: stats.tx_bytes,
            },
            processes: stats.pids,
            updated_at: clock::text(clock::now()),
        })
    }

    /// Returns a sandbox that the principal may see and that is not being
    /// deleted.
    pub(crate) async fn visible(&self, who: &Principal, id: &SandboxId) -> Result<Sandbox> {
        let found = self.catalog.sandbox(who.tenant, id).await?;
        if_visible(who, id, found)
    }

    /// Returns the connection to the workspace agent of a running sandbox.
    pub(crate) async fn agent_of(&self, who: &Principal, id: &SandboxId) -> Result<AgentLink> {
        Ok(self.agent_and_row(who, id).await?.0)
    }

    /// Returns the connection to the workspace agent of a running sandbox, and
    /// the row of the sandbox.
    pub(crate) async fn agent_and_row(
        &self,
        who: &Principal,
        id: &SandboxId,
    ) -> Result<(AgentLink, Sandbox)> {
        let sandbox = match who.asked.take(id) {
            Some(read) => if_visible(who, id, Some(read))?,
            None => self.visible(who, id).await?,
        };
        check_node(self.node, "sandbox", id, sandbox.node)?;
        if sandbox.state != SandboxState::Running {
            return Err(wrong_state(&sandbox, "serve requests"));
        }
        let link = match self.links.get(id) {
            Some(link) => link,
            None => self.wait_for_agent(&sandbox).await?,
        };
        Ok((link, sandbox))
    }

    /// Waits for an agent that is not connected. After a restart of the server,
    /// agents reconnect within a few seconds.
    async fn wait_for_agent(&self, sandbox: &Sandbox) -> Result<AgentLink> {
        let patience = std::time::Duration::from_secs(10);
        let connected = self.links.connected(&sandbox.id);
        tokio::time::timeout(patience, connected)
            .await
            .map_err(|_| {
                let message = "the workspace agent of the sandbox is not connected";
                Failure::new(ErrorCode::AgentUnreachable, message).retry_after(2)
            })
    }
}

fn if_visible(who: &Principal, id: &SandboxId, found: Option<Sandbox>) -> Result<Sandbox> {
    let found = found.filter(|sandbox| who.sees(sandbox) && !sandbox.removing);
    found.ok_or_else(|| Failure::no_sandbox(id))
}

pub(crate) fn failed(id: String, failure: Failure) -> api::Failed {
    api::Failed {
        id,
        error: failure.body(""),
    }
}
