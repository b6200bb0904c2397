//! The files of new sandboxes: their sources, and forks.

use elevo_core::SandboxId;
use std::path::PathBuf;
use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::WorkspaceState;
use futures::executor::block_on;
use tracing::Instrument;

use crate::app::access::here::check_node;
use crate::app::access::names;
use crate::app::access::principal::Principal;
use crate::app::files;
use crate::app::requests::once::Once;
use crate::app::sandboxes::new_sandbox::NewSandbox;
use crate::app::sandboxes::retries::ids_for_forks;
use crate::app::sandboxes::spec::{self, Before, Boundary, Spec};
use crate::app::sandboxes::starts::Source;
use crate::app::sandboxes::{Sandboxes, failed, metadata};
use crate::app::snapshots::{Kept, info, writing};
use crate::failure::{Failure, Result};
use crate::platform::clock;

impl Sandboxes {
    /// Returns the source of the files of a new sandbox. If the files come from
    /// a sandbox or an existing workspace, sets the disk limit in `spec` to the
    /// limit of that sandbox or workspace.
    pub(crate) async fn source(
        &self,
        who: &Principal,
        wish: &api::CreateSandbox,
        spec: &mut Spec,
    ) -> Result<Source> {
        match &wish.workspace {
            None => Ok(Source::Empty),
            Some(api::WorkspaceSource::Snapshot(id)) => {
                let snapshot = self.snapshots.snapshot_id(who, id).await?;
                spec.starts_from(&snapshot.id);
                Ok(Source::Snapshot(snapshot))
            }
            Some(api::WorkspaceSource::Directory(path)) => {
                who.needs(Scope::Host)?;
                let snapshot = self.import_directory(who, PathBuf::from(path)).await?;
                spec.starts_from(&snapshot.id);
                Ok(Source::Snapshot(snapshot))
            }
            Some(api::WorkspaceSource::Project(project)) => {
                who.needs(Scope::ProjectsWrite)?;
                let wish = api::CreateWorkspace {
                    project: project.name.clone(),
                    agent: project.agent.clone(),
                    name: wish.name.clone(),
                    snapshot: project.snapshot.clone(),
                    owner: None,
                    disk: None,
                    read_only: project.read_only,
                    sync: project.sync,
                };
                let new = self.workspaces.new_row(who, &wish, clock::id()).await?;
                Ok(Source::Project(Box::new(new)))
            }
            Some(api::WorkspaceSource::Fork(from)) => {
                let from = self.names.sandbox(who, from).await?;
                let origin = self.visible(who, &from).await?;
                check_node(self.node, "sandbox", &from, origin.node)?;
                let of_origin = Spec::of(&origin)?;
                spec.forks(&origin, of_origin.base);
                spec.keep_disk(
                    wish,
                    of_origin.disk,
                    "a fork must have the disk limit of its origin; leave the limit out",
                )?;
                Ok(Source::Fork(Box::new((who.clone(), origin))))
            }
            Some(api::WorkspaceSource::Existing(id)) => {
                let id = self.names.workspace(who, id).await?;
                let row = self.workspaces.existing(who, &id, wish, spec).await?;
                self.workspaces.check_here(&row)?;
                spec.before = Some(Before {
                    is_live: row.state == WorkspaceState::Live,
                    expires: row.expires.map(clock::text),
                });
                Ok(Source::Existing(Box::new(row)))
            }
        }
    }

    async fn import_directory(&self, who: &Principal, path: PathBuf) -> Result<Kept> {
        if !path.is_absolute() || !path.is_dir() {
            let message = "`workspace.directory` must be the absolute path of a directory on the server's machine";
            return Err(Failure::invalid(message));
        }
        let repository = self.stores.repository(who.tenant);
        let info = info(who, format!("imported from {}", path.display()));
        let imported = self.stores.blocking(who.tenant, move || {
            let _writing = writing(&repository)?;
            let (id, ..) = files::import(&repository, &path, info)?;
            block_on(Kept::of(&repository, id))
        });
        imported.await
    }

    /// Creates sandboxes with copies of the files of another sandbox.
    pub(crate) async fn fork(
        self: &Arc<Self>,
        who: &Principal,
        id: &SandboxId,
        wish: api::Fork,
        once: Once,
    ) -> Result<api::Forked> {
        who.needs(Scope::SandboxesWrite)?;
        let (app, who, id) = (self.clone(), who.clone(), id.to_owned());
        // A separate task, so that the fork is completed even if the client
        // disconnects.
        let forking = async move { app.fork_once(&who, &id, wish, &once).await };
        let forking = tokio::spawn(forking.in_current_span());
        forking.await.map_err(|error| Failure::internal(&error))?
    }

    async fn fork_once(
        self: &Arc<Self>,
        who: &Principal,
        id: &SandboxId,
        wish: api::Fork,
        once: &Once,
    ) -> Result<api::Forked> {
        let count = wish.count.unwrap_or(1);
        if !(1..=50).contains(&count) {
            return Err(Failure::invalid("`count` must be 1 to 50"));
        }
        if let Some(name) = &wish.name {
            names::check_name(name)?;
        }
        metadata::check(&wish.metadata)?;
        if let Some(done) = self.forked_before(who, count, once).await? {
            return Ok(done);
        }
        let origin = self.visible(who, id).await?;
        let mut spec = Spec::of(&origin)?;
        Boundary::of(&self.config, who).check(&spec)?;
        if wish.timeout_seconds.is_some() {
            spec.timeout = spec::timeout(wish.timeout_seconds, &self.config.limits)?;
        }
        let base = spec.base.take();
        spec.forks(&origin, base);
        if !wish.envs.is_empty() {
            let envs = self.secrets.with_variables(&origin, wish.envs)?;
            spec::check_envs(&envs)?;
            spec.variables = self.secrets.seal_variables(who.tenant, &envs).await?;
        }
        let mut pairs = origin.metadata.clone();
        pairs.extend(wish.metadata);
        metadata::check(&pairs)?;
        let now = self.time.now().await?;
        let warm: Vec<_> = (0..count).map(|_| self.pools.take(&spec)).collect();
        // The ids are derived from the request or recorded in its row before the
        // forks get rows, so that a retry after a crash finds the forks.
        let ids = ids_for_forks(once, &warm).await?;
        let mut new = Vec::new();
        for ((number, id), warm) in (1..=count).zip(ids).zip(warm) {
            let name = wish.name.as_ref().map(|name| match count {
                1 => name.clone(),
                _ => format!("{name}-{number}"),
            });
            let mut fork = self.new_row(who, (id, &origin.template), name, &spec, warm, now)?;
            fork.row.metadata = pairs.clone();
            new.push(fork);
        }
        let rows: Vec<_> = new.iter().map(|new| new.row.clone()).collect();
        let started = clock::instant();
        // The rows are added before files and containers are created. After a
        // crash, the recovery deletes rows in the state `starting` together with
        // their files and containers.
        self.add_rows(who, &mut new).await?;
        if let Err(failure) = self.starts.fork_workspace(who, &origin, &rows).await {
            for row in &rows {
                self.starts.give_up(row).await;
            }
            return Err(failure);
        }
        let outcome = self.make_forks(new, &spec).await;
        crate::platform::metrics::forked(started.elapsed());
        Ok(outcome)
    }

    /// Starts the forks at the same time. Some may fail while others succeed.
    async fn make_forks(self: &Arc<Self>, new: Vec<NewSandbox>, spec: &Spec) -> api::Forked {
        let making = new.into_iter().map(|new| {
            let (app, spec, id) = (self.clone(), spec.clone(), new.row.id.clone());
            let made = async move { app.starts.create_new(new, spec, Source::Made).await };
            let made = tokio::spawn(made.in_current_span());
            async move { (id, made.await) }
        });
        let mut outcome = api::Forked::default();
        for (id, made) in futures::future::join_all(making).await {
            let made = made.map_err(|error| Failure::internal(&error));
            match made.and_then(|made| spec::out(&made?)) {
                Ok(made) => outcome.succeeded.push(made),
                Err(failure) => outcome.failed.push(failed(id.to_string(), failure)),
            }
        }
        outcome
    }
}
