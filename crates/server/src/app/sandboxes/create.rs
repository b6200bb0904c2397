//! Creates sandboxes: checks the request, chooses the specification and the
//! source of the files, and adds the row. `Starts` creates the container.

use crate::app::access::names::check_name;
use crate::app::access::principal::Principal;
use crate::app::missing::no_template;
use crate::app::requests::once::Once;
use crate::app::sandboxes::new_sandbox::NewSandbox;
use crate::app::sandboxes::pool::Taken;
use crate::app::sandboxes::spec::{self, Boundary, Spec};
use crate::app::sandboxes::starts::Source;
use crate::app::sandboxes::{Sandboxes, metadata};
use crate::app::workspaces::parking;
use crate::failure::{Failure, Result};
use crate::platform::clock;
use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::secret::SandboxToken;
use elevo_catalog::{AddLimits, Sandbox};
use elevo_core::{ErrorCode, SandboxId, SandboxState, Timestamp, WorkspaceId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

impl Sandboxes {
    /// Creates a sandbox. Returns when the sandbox can run commands.
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
        metadata::check(&wish.metadata)?;
        let (app, who) = (self.clone(), who.clone());
        // A separate task, so that the creation is completed even if the
        // client disconnects.
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
            // Without a container engine, the client could not add the missing
            // template. So a missing engine is reported first.
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
            // A read-only workspace follows its project through a mount that a
            // warm container does not have.
            Source::Project(made) if made.row.read_only => None,
            Source::Existing(row) if row.read_only => None,
            _ => self.pools.take(&spec),
        };
        let id = self.id_for_sandbox(once, warm.as_ref()).await?;
        let mut new = self.new_row(who, (id, &wish.template), wish.name, &spec, warm, now)?;
        new.row.metadata = wish.metadata;
        if let Source::Project(made) = &mut source {
            made.row.id = new.row.workspace.clone();
            new.row.agent = made.row.agent.clone();
        }
        if let Source::Existing(row) = &source {
            new.row.workspace = row.id.clone();
            new.row.agent = row.agent.clone();
            // The workspace is older than this sandbox. If the sandbox fails to
            // start, its deletion must not delete the workspace.
            new.row.keep_workspace = true;
        }
        let added = self.add_rows(who, std::slice::from_mut(&mut new)).await;
        match (&source, added) {
            // Another sandbox uses the workspace: the catalog accepts only one
            // sandbox for each workspace.
            (Source::Existing(row), Err(elevo_catalog::Error::Exists { .. })) => {
                return Err(parking::in_use(row));
            }
            (_, added) => added?,
        }
        self.starts.create_new(new, spec, source).await
    }

    /// Fails if the server has no binary of the workspace agent. The caller
    /// checks this before the template, because no template works without the
    /// agent.
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

    /// Adds the rows of new sandboxes: all of them, or none if a limit is
    /// reached.
    pub(crate) async fn add_rows(
        &self,
        who: &Principal,
        new: &mut [NewSandbox],
    ) -> elevo_catalog::Result<()> {
        use elevo_catalog::Error::{Busy, LimitReached, NameTaken, NotFound, Refused};
        let rows: Vec<_> = new.iter().map(|new| new.row.clone()).collect();
        let limits = AddLimits {
            per_key: who.limits.sandboxes,
            total: Some(self.config.limits.max_sandboxes),
        };
        let added = self.catalog.add_sandboxes(&rows, limits).await;
        // After one of these errors there is certainly no row, and the warm
        // container goes back to its pool. After others the row may exist.
        let is_refused = matches!(
            added,
            Err(Busy | LimitReached { .. } | NameTaken { .. } | NotFound { .. } | Refused(_))
        );
        if !is_refused {
            new.iter_mut().for_each(NewSandbox::use_up);
        }
        added
    }

    /// Builds the row of a new sandbox, and registers it as being started. A warm
    /// container has its token already.
    pub(crate) fn new_row(
        &self,
        who: &Principal,
        (id, template): (SandboxId, &str),
        name: Option<String>,
        spec: &Spec,
        warm: Option<Taken>,
        now: Timestamp,
    ) -> Result<NewSandbox> {
        let token = SandboxToken::from_random(clock::random());
        let token_hash = warm.as_ref().map(Taken::token_hash);
        let making = self.starts.enter(&id);
        let row = Sandbox {
            workspace: WorkspaceId::from(&id),
            container: warm.is_some().then(|| id.to_string()),
            id,
            tenant: who.tenant,
            agent: who.agent.clone(),
            key: who.key.clone(),
            name,
            state: SandboxState::Starting,
            reason: None,
            failure: None,
            template: template.into(),
            token_hash: token_hash.unwrap_or_else(|| token.hash()),
            created: now,
            expires: clock::after(now, Duration::from_secs(spec.timeout)),
            updated: now,
            removing: false,
            keep_workspace: false,
            started_before: false,
            node: self.node,
            generation: 1,
            spec: serde_json::to_value(spec).map_err(|error| Failure::internal(&error))?,
            metadata: BTreeMap::new(),
            project: None,
            base: None,
        };
        Ok(NewSandbox {
            row,
            token,
            warm,
            _making: making,
        })
    }
}
