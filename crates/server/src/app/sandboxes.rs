//! The life of sandboxes, from creation to deletion.

pub(crate) mod containers;
pub(crate) mod forks;
pub(crate) mod freezer;
pub(crate) mod locks;
pub(crate) mod lost;
pub(crate) mod makers;
pub(crate) mod pool;
pub(crate) mod reasons;
pub(crate) mod retries;
pub(crate) mod rows;
pub(crate) mod spec;
pub(crate) mod starts;
pub(crate) mod templates;
pub(crate) mod warm_pools;

use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::AgentLink;
use elevo_agent_link::AgentLinks;
use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::secret::SandboxToken;
use elevo_catalog::{AddLimits, Sandbox, SandboxChange, SandboxQuery};
use elevo_core::{ErrorCode, SandboxState, Timestamp};
use elevo_sandbox::SandboxRuntime;
use tracing::Instrument;

use crate::app::access::keys::check_name;
use crate::app::access::principal::Principal;
use crate::app::access::secrets::Secrets;
use crate::app::requests::Once;
use crate::app::resources::Resources;
use crate::app::sandboxes::freezer::Freezer;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::sandboxes::makers::Making;
use crate::app::sandboxes::pool::Taken;
use crate::app::sandboxes::rows::{container_of, wrong_state};
use crate::app::sandboxes::spec::{Boundary, Spec};
use crate::app::sandboxes::starts::{Source, Starts};
use crate::app::sandboxes::warm_pools::WarmPools;
use crate::app::snapshots::Snapshots;
use crate::app::tenant_stores::{self, TenantStores};
use crate::app::timekeeping::Timekeeper;
use crate::app::workspaces::{Workspaces, parking};
use crate::config::Config;
use crate::failure::{Failure, Result, short};
use crate::platform::clock;

/// The filters of a list of sandboxes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListQuery {
    pub(crate) page: u32,
    pub(crate) limit: u32,
    pub(crate) state: Option<SandboxState>,
    pub(crate) name_prefix: Option<String>,
}

/// The range of a log.
#[derive(Clone, Debug)]
pub(crate) struct LogsQuery {
    pub(crate) tail: u32,
    pub(crate) since: Option<elevo_core::Timestamp>,
    pub(crate) until: Option<elevo_core::Timestamp>,
}

/// A row that is not added yet, and the token of its agent.
pub(crate) struct NewSandbox {
    pub(crate) row: Sandbox,
    pub(crate) token: SandboxToken,
    /// The warm container that the sandbox takes over, if any.
    pub(crate) warm: Option<Taken>,
    _making: Making,
}

impl NewSandbox {
    /// Removes the warm container from its pool: it has a row now, or must not
    /// be given to another sandbox.
    fn use_up(&mut self) {
        if let Some(warm) = &mut self.warm {
            warm.used();
        }
    }
}

/// The sandboxes of clients.
pub(crate) struct Sandboxes {
    catalog: Arc<dyn Catalog>,
    config: Arc<Config>,
    freezer: Arc<Freezer>,
    links: AgentLinks,
    locks: Arc<SandboxLocks>,
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
            config: resources.config.clone(),
            freezer: resources.freezer.clone(),
            links: resources.links.clone(),
            locks: resources.locks.clone(),
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

    /// Creates a sandbox. Returns when commands can run.
    pub(crate) async fn create(
        self: &Arc<Self>,
        who: &Principal,
        wish: api::CreateSandbox,
        once: Once,
    ) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesWrite)?;
        if let Some(name) = &wish.name {
            check_name(name)?;
        }
        let (app, who) = (self.clone(), who.clone());
        // The creation, from row to start, continues if the caller goes away.
        let creating = async move { app.create_once(&who, wish, &once).await };
        let creating = tokio::spawn(creating.in_current_span());
        let made = creating
            .await
            .map_err(|error| Failure::internal(&error))??;
        spec::out(&made)
    }

    async fn create_once(
        self: &Arc<Self>,
        who: &Principal,
        wish: api::CreateSandbox,
        once: &Once,
    ) -> Result<Sandbox> {
        if let Some(made) = self.created_before(who, once).await? {
            return Ok(made);
        }
        self.can_make_sandboxes().await?;
        let template = self.catalog.template(&wish.template).await?;
        let Some(template) = template else {
            // Without an engine no template can be added either.
            self.runtime.check().await?;
            return Err(no_template(&wish.template));
        };
        let boundary = Boundary::of(&self.config, who);
        let can_limit = self.stores.can_limit();
        let mut spec = Spec::decide(&self.config, &boundary, &wish, &template, can_limit)?;
        spec.variables = self.secrets.seal_variables(who.tenant, &wish.envs).await?;
        let source = self.source(who, &wish, &mut spec);
        let mut source = self.stores.shares.apart(who.tenant, source).await?;
        let now = self.time.now().await?;
        let warm = match &source {
            // A workspace that follows a project needs another kind of mount.
            Source::Project(made) if made.row.read_only => None,
            Source::Existing(row) if row.read_only => None,
            _ => self.pools.take(&spec),
        };
        let id = self.id_for_sandbox(once, warm.as_ref()).await?;
        let mut new = self.new_row(who, (id, &wish.template), wish.name, &spec, warm, now)?;
        if let Source::Project(made) = &mut source {
            made.row.id = new.row.workspace.clone();
            new.row.agent = made.row.agent.clone();
        }
        if let Source::Existing(row) = &source {
            new.row.workspace = row.id.clone();
            new.row.agent = row.agent.clone();
            // A sandbox that fails to start must not delete work that was
            // there before it.
            new.row.keep_workspace = true;
        }
        let added = self.add_rows(who, std::slice::from_mut(&mut new)).await;
        match (&source, added) {
            (Source::Existing(row), Err(failure)) if failure.code == ErrorCode::NameTaken => {
                return Err(parking::in_use(row));
            }
            (_, added) => added?,
        }
        self.starts.create_new(new, spec, source).await
    }

    /// Fails while the agent is missing, before the caller is asked for a
    /// template.
    async fn can_make_sandboxes(&self) -> Result<()> {
        let agent = self.config.data_dir.join("agent/workspace-agent");
        if agent.is_file() {
            return Ok(());
        }
        let message = "the server has no `workspace-agent` for sandboxes";
        let failure = Failure::new(ErrorCode::RuntimeUnavailable, message);
        Err(failure.remediation(
            "Put `workspace-agent` next to the server's binary, or set AGENT_BINARY to its path, \
             and restart the server.",
        ))
    }

    /// Adds the rows of new sandboxes, all or none.
    pub(crate) async fn add_rows(&self, who: &Principal, new: &mut [NewSandbox]) -> Result<()> {
        use elevo_catalog::Error::{Busy, LimitReached, NotFound, Refused};
        let rows: Vec<_> = new.iter().map(|new| new.row.clone()).collect();
        let limits = AddLimits {
            per_key: who.limits.sandboxes,
            total: Some(self.config.limits.max_sandboxes),
        };
        let added = self.catalog.add_sandboxes(&rows, limits).await;
        // Only a container that certainly has no row goes back to its pool.
        let is_refused = matches!(
            added,
            Err(Busy | LimitReached { .. } | NotFound { .. } | Refused(_))
        );
        if !is_refused {
            new.iter_mut().for_each(NewSandbox::use_up);
        }
        Ok(added?)
    }

    pub(crate) fn new_row(
        &self,
        who: &Principal,
        (id, template): (String, &str),
        name: Option<String>,
        spec: &Spec,
        warm: Option<Taken>,
        now: Timestamp,
    ) -> Result<NewSandbox> {
        let token = SandboxToken::from_random(clock::random());
        let token_hash = warm.as_ref().map(Taken::token_hash);
        let making = self.starts.enter(&id);
        let row = Sandbox {
            workspace: id.clone(),
            container: warm.is_some().then(|| id.clone()),
            id,
            tenant: who.tenant,
            agent: who.agent.clone(),
            key: who.key.clone(),
            name,
            state: SandboxState::Starting,
            reason: None,
            template: template.into(),
            token_hash: token_hash.unwrap_or_else(|| token.hash()),
            created: now,
            expires: clock::after(now, Duration::from_secs(spec.timeout)),
            updated: now,
            removing: false,
            keep_workspace: false,
            spec: serde_json::to_value(spec).map_err(|error| Failure::internal(&error))?,
        };
        Ok(NewSandbox {
            row,
            token,
            warm,
            _making: making,
        })
    }

    pub(crate) async fn get(&self, who: &Principal, id: &str) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesRead)?;
        spec::out(&self.visible(who, id).await?)
    }

    pub(crate) async fn list(&self, who: &Principal, query: ListQuery) -> Result<api::SandboxPage> {
        who.needs(Scope::SandboxesRead)?;
        let found = self
            .catalog
            .sandboxes(&SandboxQuery {
                tenant: Some(who.tenant),
                agent: who.agent.clone(),
                state: query.state,
                name_prefix: query.name_prefix,
                removing: Some(false),
                page: query.page,
                limit: query.limit,
                ..SandboxQuery::default()
            })
            .await?;
        Ok(api::SandboxPage {
            items: found.items.iter().map(spec::out).collect::<Result<_>>()?,
            total: found.total,
            page: query.page,
            limit: query.limit,
        })
    }

    /// Deletes a sandbox. Its workspace is deleted too, or parked if it is to
    /// be kept.
    pub(crate) async fn delete(
        self: &Arc<Self>,
        who: &Principal,
        id: &str,
        keep_workspace: bool,
    ) -> Result<()> {
        who.needs(Scope::SandboxesWrite)?;
        self.visible(who, id).await?;
        let mark = SandboxChange {
            removing: Some(true),
            keep_workspace: Some(keep_workspace),
            ..SandboxChange::default()
        };
        let marked = self.catalog.change_sandbox(id, &mark, clock::now()).await;
        let sandbox = marked.map_err(|error| match error {
            elevo_catalog::Error::NotFound { .. } => Failure::no_sandbox(id),
            error => error.into(),
        })?;
        let app = self.clone();
        let removing = tokio::spawn(async move { app.starts.remove(&sandbox).await });
        removing.await.map_err(|error| Failure::internal(&error))?
    }

    pub(crate) async fn batch_delete(
        self: &Arc<Self>,
        who: &Principal,
        wish: api::BatchDelete,
        once: Once,
    ) -> Result<api::BatchDeleted> {
        who.needs(Scope::SandboxesWrite)?;
        if wish.ids.len() > 50 {
            return Err(Failure::invalid("`ids` has more than 50 entries"));
        }
        let before = self.deleted_before(who, &wish.ids, &once).await?;
        let deletions = wish
            .ids
            .iter()
            .map(|id| async move { (id.clone(), self.delete(who, id, wish.keep_workspace).await) });
        let mut outcome = api::BatchDeleted::default();
        for (id, deleted) in futures::future::join_all(deletions).await {
            match deleted {
                Ok(()) => outcome.succeeded.push(id),
                Err(_) if before.contains(&id) => outcome.succeeded.push(id),
                Err(failure) => outcome.failed.push(failed(id, failure)),
            }
        }
        Ok(outcome)
    }

    /// Stops everything that runs in a sandbox. Its workspace stays.
    pub(crate) async fn stop(self: &Arc<Self>, who: &Principal, id: &str) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesWrite)?;
        let sandbox = self.visible(who, id).await?;
        if sandbox.state == SandboxState::Stopped {
            return spec::out(&sandbox);
        }
        let app = self.clone();
        let stopping = tokio::spawn(async move { app.stop_held(&sandbox.id).await });
        let stopped = stopping
            .await
            .map_err(|error| Failure::internal(&error))??;
        spec::out(&stopped)
    }

    async fn stop_held(&self, id: &str) -> Result<Sandbox> {
        let _held = self.locks.hold(id).await;
        let from = [
            SandboxState::Running,
            SandboxState::Starting,
            SandboxState::Error,
        ];
        let sandbox = self
            .starts
            .change(id, &from, SandboxState::Stopping, None)
            .await?;
        if let Some(link) = self.links.get(id) {
            // An agent that does not stop is killed below.
            let _ = link.shut_down(Duration::from_secs(5)).await;
        }
        if let Some(container) = container_of(&sandbox)
            && let Err(error) = self.runtime.kill(&container).await
        {
            let failure = Failure::from(error);
            let cause = failure.summary();
            tracing::warn!(sandbox = id, cause, "cannot stop a sandbox");
            let reason = Some(failure.message.clone());
            self.starts
                .change(id, &[SandboxState::Stopping], SandboxState::Error, reason)
                .await?;
            return Err(failure);
        }
        self.links.forget(id);
        self.starts
            .change(id, &[SandboxState::Stopping], SandboxState::Stopped, None)
            .await
    }

    /// Starts a sandbox that was stopped or has failed.
    pub(crate) async fn start(self: &Arc<Self>, who: &Principal, id: &str) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesWrite)?;
        let sandbox = self.visible(who, id).await?;
        if sandbox.state == SandboxState::Running {
            return spec::out(&sandbox);
        }
        let app = self.clone();
        let starting = tokio::spawn(async move { app.starts.start_again(&sandbox.id).await });
        let started = starting
            .await
            .map_err(|error| Failure::internal(&error))??;
        spec::out(&started)
    }

    pub(crate) async fn extend(
        &self,
        who: &Principal,
        id: &str,
        wish: api::Extend,
        once: Once,
    ) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesWrite)?;
        let _held = self.locks.hold(id).await;
        let sandbox = self.visible(who, id).await?;
        if let Some((seconds, nanos)) = once.noted() {
            let noted = Timestamp::new(seconds, nanos).unwrap_or(sandbox.expires);
            return self.expire_at(id, noted.max(sandbox.expires)).await;
        }
        let limits = &self.config.limits;
        let most = limits.max_extension.as_secs();
        if wish.seconds == 0 || u64::from(wish.seconds) > most {
            let message = format!("`seconds` must be 1 to {most}");
            return Err(Failure::new(ErrorCode::LifetimeExceeded, message).about("limit", most));
        }
        let expires = clock::after(sandbox.expires, Duration::from_secs(wish.seconds.into()));
        let last = clock::after(sandbox.created, limits.max_lifetime);
        if expires > last {
            let left = last
                .seconds()
                .saturating_sub(sandbox.expires.seconds())
                .max(0);
            let message = format!("a sandbox lives at most until {}", clock::text(last));
            let failure = Failure::new(ErrorCode::LifetimeExceeded, message);
            return Err(failure.about("limit", left));
        }
        once.note(&(expires.seconds(), expires.nanos())).await?;
        self.expire_at(id, expires).await
    }

    async fn expire_at(&self, id: &str, expires: Timestamp) -> Result<api::Sandbox> {
        let change = SandboxChange {
            expires: Some(expires),
            ..SandboxChange::default()
        };
        let changed = self.catalog.change_sandbox(id, &change, clock::now());
        spec::out(&changed.await?)
    }

    pub(crate) async fn logs(
        &self,
        who: &Principal,
        id: &str,
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

    pub(crate) async fn stats(&self, who: &Principal, id: &str) -> Result<api::SandboxStats> {
        who.needs(Scope::SandboxesRead)?;
        let sandbox = self.visible(who, id).await?;
        let spec = Spec::of(&sandbox)?;
        let container = container_of(&sandbox);
        let container = container.filter(|_| sandbox.state == SandboxState::Running);
        let container = container.ok_or_else(|| wrong_state(&sandbox, "be measured"))?;
        let stats = self.runtime.stats(&container).await?;
        let workspace = tenant_stores::workspace_id(&sandbox.workspace)?;
        let usage = self.stores.with(sandbox.tenant, move |workspaces| {
            Ok(workspaces.limit_usage(&workspace)?)
        });
        let usage = usage.await?;
        let limit = stats.memory_limit.max(1);
        Ok(api::SandboxStats {
            sandbox_id: sandbox.id,
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

    /// Returns a sandbox that this principal may see.
    pub(crate) async fn visible(&self, who: &Principal, id: &str) -> Result<Sandbox> {
        let found = self.catalog.sandbox(who.tenant, id).await?;
        let found = found.filter(|sandbox| who.sees(sandbox) && !sandbox.removing);
        found.ok_or_else(|| Failure::no_sandbox(id))
    }

    /// Returns the connection to the agent of a running sandbox.
    pub(crate) async fn agent_of(&self, who: &Principal, id: &str) -> Result<AgentLink> {
        Ok(self.agent_and_row(who, id).await?.0)
    }

    pub(crate) async fn agent_and_row(
        &self,
        who: &Principal,
        id: &str,
    ) -> Result<(AgentLink, Sandbox)> {
        let sandbox = self.visible(who, id).await?;
        if sandbox.state != SandboxState::Running {
            return Err(wrong_state(&sandbox, "serve requests"));
        }
        let link = match self.links.get(id) {
            Some(link) => link,
            None => self.wait_for_agent(&sandbox).await?,
        };
        Ok((link, sandbox))
    }

    /// After a restart of the server, agents reconnect within moments.
    async fn wait_for_agent(&self, sandbox: &Sandbox) -> Result<AgentLink> {
        let patience = std::time::Duration::from_secs(10);
        let connected = self.links.connected(&sandbox.id);
        tokio::time::timeout(patience, connected)
            .await
            .map_err(|_| {
                let message = "the agent in the sandbox is not connected";
                Failure::new(ErrorCode::AgentUnreachable, message).retry_after(2)
            })
    }
}

pub(crate) fn failed(id: String, failure: Failure) -> api::Failed {
    api::Failed {
        id,
        error: failure.body(""),
    }
}

pub(crate) fn no_template(name: &str) -> Failure {
    let name = short(name);
    let message = format!("there is no template `{name}`");
    Failure::new(ErrorCode::TemplateNotFound, message)
        .about("template", name.as_str())
        .remediation(format!(
            "List templates with `elevo template ls`; add the image with `elevo template add {name}`."
        ))
}
