//! The files of sandboxes: sources, forks and snapshots.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Sandbox;
use elevo_engine::{CommitInfo, Loss, LossKind, Progress};
use elevo_sandbox::{ContainerId, SandboxRuntime};
use elevo_workspace::Freeze;
use futures::executor::block_on;
use tracing::Instrument;

use crate::app::kept::{Kept, no_snapshot, writing};
use crate::app::repeated::ids_for_forks;
use crate::app::sandboxes::{NewSandbox, container_of, failed};
use crate::app::spec::{self, Boundary, Spec};
use crate::app::starting::Source;
use crate::app::{App, Once, Principal, archives, keys, parts};
use crate::clock;
use crate::failure::{Failure, Result};
use crate::trace::step;

/// Freezes the processes of a sandbox.
pub(super) struct Frozen {
    runtime: Arc<dyn SandboxRuntime>,
    container: Option<ContainerId>,
    handle: tokio::runtime::Handle,
}

impl Freeze for Frozen {
    fn freeze(&self) -> io::Result<()> {
        match &self.container {
            Some(container) => self
                .handle
                .block_on(self.runtime.freeze(container))
                .map_err(io::Error::other),
            None => Ok(()),
        }
    }

    fn thaw(&self) {
        if let Some(container) = &self.container
            && let Err(error) = self.handle.block_on(self.runtime.thaw(container))
        {
            let cause = crate::failure::chain(&error);
            tracing::error!(
                container = container.as_str(),
                cause,
                "cannot thaw a container"
            );
        }
    }
}

impl App {
    pub(super) fn frozen(&self, sandbox: &Sandbox) -> Frozen {
        let runs = sandbox.state == elevo_core::SandboxState::Running;
        Frozen {
            runtime: self.runtime.clone(),
            container: container_of(sandbox).filter(|_| runs),
            handle: tokio::runtime::Handle::current(),
        }
    }

    /// For a workspace in which the server runs nothing.
    pub(super) fn frozen_nothing(&self) -> Frozen {
        Frozen {
            runtime: self.runtime.clone(),
            container: None,
            handle: tokio::runtime::Handle::current(),
        }
    }

    /// Returns the source of a new workspace. A fork keeps the disk of its
    /// origin.
    pub(crate) async fn source(
        &self,
        who: &Principal,
        wish: &api::CreateSandbox,
        spec: &mut Spec,
    ) -> Result<Source> {
        match &wish.workspace {
            None => Ok(Source::Empty),
            Some(api::WorkspaceSource::Snapshot(id)) => {
                Ok(Source::Snapshot(self.snapshot_id(who, id).await?))
            }
            Some(api::WorkspaceSource::Directory(path)) => {
                who.needs(Scope::Host)?;
                self.import_directory(who, PathBuf::from(path)).await
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
                let new = self.new_workspace(who, &wish, String::new()).await?;
                Ok(Source::Project(Box::new(new)))
            }
            Some(api::WorkspaceSource::Fork(from)) => {
                let origin = self.visible(who, from).await?;
                let disk = Spec::of(&origin)?.disk;
                spec.keep_disk(
                    wish,
                    disk,
                    "a fork cannot have another disk limit than its origin",
                )?;
                Ok(Source::Fork(Box::new((who.clone(), origin))))
            }
            Some(api::WorkspaceSource::Existing(id)) => {
                let row = self.parked(who, id, wish, spec).await?;
                Ok(Source::Existing(Box::new(row)))
            }
        }
    }

    /// Returns a snapshot that this principal may take files from. An agent may
    /// use only snapshots made for it: others may contain paths that a policy
    /// hides from it.
    pub(super) async fn snapshot_id(&self, who: &Principal, text: &str) -> Result<Kept> {
        let kept = self.known_snapshot(who, text).await?;
        let Some(agent) = &who.agent else {
            return Ok(kept);
        };
        let repository = self.homes.repository(who.tenant);
        let snapshot = repository.snapshot(kept.id).await?;
        let is_shared = snapshot.labels.contains_key(SHARED);
        match snapshot.author == *agent && !is_shared {
            true => Ok(kept),
            false => Err(no_snapshot(text)),
        }
    }

    async fn import_directory(&self, who: &Principal, path: PathBuf) -> Result<Source> {
        if !path.is_absolute() || !path.is_dir() {
            let message = "`workspace.directory` must be the absolute path of a directory on the server's machine";
            return Err(Failure::invalid(message));
        }
        let repository = self.homes.repository(who.tenant);
        let info = info(who, format!("imported from {}", path.display()));
        let imported = self.homes.blocking(who.tenant, move || {
            let _writing = writing(&repository)?;
            let (id, ..) = archives::import(&repository, &path, info)?;
            block_on(Kept::of(&repository, id))
        });
        Ok(Source::Snapshot(imported.await?))
    }

    /// Forks the files of a sandbox into new sandboxes.
    pub(crate) async fn fork(
        self: &Arc<Self>,
        who: &Principal,
        id: &str,
        wish: api::Fork,
        once: Once,
    ) -> Result<api::Forked> {
        who.needs(Scope::SandboxesWrite)?;
        let (app, who, id) = (self.clone(), who.clone(), id.to_owned());
        // The whole fork, from rows to start, continues if the caller goes
        // away.
        let forking = async move { app.fork_once(&who, &id, wish, &once).await };
        let forking = tokio::spawn(forking.in_current_span());
        forking.await.map_err(|error| Failure::internal(&error))?
    }

    async fn fork_once(
        self: &Arc<Self>,
        who: &Principal,
        id: &str,
        wish: api::Fork,
        once: &Once,
    ) -> Result<api::Forked> {
        let count = wish.count.unwrap_or(1);
        if !(1..=50).contains(&count) {
            return Err(Failure::invalid("`count` must be 1 to 50"));
        }
        if let Some(name) = &wish.name {
            keys::check_name(name)?;
        }
        if let Some(done) = self.forked_before(who, count, once).await? {
            return Ok(done);
        }
        let origin = self.visible(who, id).await?;
        let mut spec = Spec::of(&origin)?;
        Boundary::of(&self.config, who).check(&spec)?;
        if wish.timeout_seconds.is_some() {
            spec.timeout = spec::timeout(wish.timeout_seconds, &self.config.limits)?;
        }
        let now = self.time().await?;
        let warm: Vec<_> = (0..count).map(|_| self.take_warm(&spec)).collect();
        // Derived from the request or recorded with it before the rows exist: a
        // retry after a crash finds the forks by these ids.
        let ids = ids_for_forks(once, &warm).await?;
        let mut new = Vec::new();
        for ((number, id), warm) in (1..=count).zip(ids).zip(warm) {
            let name = wish.name.as_ref().map(|name| match count {
                1 => name.clone(),
                _ => format!("{name}-{number}"),
            });
            new.push(self.new_row(who, (id, &origin.template), name, &spec, warm, now)?);
        }
        let rows: Vec<_> = new.iter().map(|new| new.row.clone()).collect();
        let started = clock::instant();
        // Rows come before files and containers: after a crash, recovery rolls
        // back rows that are still starting, with everything they have.
        self.add_rows(who, &mut new).await?;
        if let Err(failure) = self.fork_workspace(who, &origin, &rows).await {
            for row in &rows {
                self.give_up(&row.id).await;
            }
            return Err(failure);
        }
        let outcome = self.make_forks(new, &spec).await;
        crate::metrics::forked(started.elapsed());
        Ok(outcome)
    }

    async fn make_forks(self: &Arc<Self>, new: Vec<NewSandbox>, spec: &Spec) -> api::Forked {
        let making = new.into_iter().map(|new| {
            let (app, spec, id) = (self.clone(), spec.clone(), new.row.id.clone());
            let made = async move { app.make(new, spec, Source::Made).await };
            let made = tokio::spawn(made.in_current_span());
            async move { (id, made.await) }
        });
        let mut outcome = api::Forked::default();
        for (id, made) in futures::future::join_all(making).await {
            let made = made.map_err(|error| Failure::internal(&error));
            match made.and_then(|made| spec::out(&made?)) {
                Ok(made) => outcome.succeeded.push(made),
                Err(failure) => outcome.failed.push(failed(id, failure)),
            }
        }
        outcome
    }

    pub(super) async fn fork_workspace(
        &self,
        who: &Principal,
        from: &Sandbox,
        into: &[Sandbox],
    ) -> Result<()> {
        let _held = self.hold(&from.id).await;
        let origin = parts::workspace_id(&from.workspace)?;
        self.add_forks(from, into).await?;
        let into = into.iter().map(|row| parts::workspace_id(&row.workspace));
        let into = into.collect::<Result<Vec<_>>>()?;
        let info = own_info(who, format!("fork of {}", from.id));
        let frozen = self.frozen(from);
        let forked = self.homes.with(from.tenant, move |workspaces| {
            workspaces.fork(&origin, &into, info, &frozen, &Progress::new())?;
            Ok(())
        });
        forked.instrument(step!("workspaces.fork")).await
    }

    pub(crate) async fn snapshot(
        &self,
        who: &Principal,
        id: &str,
        wish: api::TakeSnapshot,
    ) -> Result<api::SnapshotTaken> {
        who.needs(Scope::SandboxesWrite)?;
        if wish.message.len() > 10_000 {
            return Err(Failure::invalid("`message` has more than 10000 bytes"));
        }
        let started = clock::instant();
        let _held = self.hold(id).await;
        let sandbox = self.visible(who, id).await?;
        let workspace = parts::workspace_id(&sandbox.workspace)?;
        let (frozen, info) = (self.frozen(&sandbox), info(who, wish.message));
        let taken = self.homes.with(sandbox.tenant, move |workspaces| {
            Ok(workspaces.snapshot(&workspace, info, &frozen, &Progress::new())?)
        });
        let taken = taken.instrument(step!("workspace.snapshot")).await?;
        crate::metrics::snapshot_taken(started.elapsed());
        Ok(api::SnapshotTaken {
            snapshot_id: taken.id.to_string(),
            is_new: taken.is_new,
            not_kept: losses_out(&taken.losses),
        })
    }

    pub(crate) async fn restore(
        &self,
        who: &Principal,
        id: &str,
        wish: api::Restore,
    ) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesWrite)?;
        let _held = self.hold(id).await;
        let sandbox = self.visible(who, id).await?;
        let snapshot = self.snapshot_id(who, &wish.snapshot_id).await?;
        let workspace = parts::workspace_id(&sandbox.workspace)?;
        let frozen = self.frozen(&sandbox);
        let restored = self.homes.with(sandbox.tenant, move |workspaces| {
            workspaces.restore(&workspace, snapshot.id, &frozen, &Progress::new())?;
            Ok(())
        });
        restored.await?;
        spec::out(&sandbox)
    }
}

/// The label of snapshots that belong to a project, not to their author.
pub(super) const SHARED: &str = "project";

/// The label of snapshots that the server takes for itself. Clients do not know
/// their ids, so files in such a snapshot do not count as saved.
pub(super) const OWN: &str = "own";

pub(super) fn own_label() -> (String, String) {
    (OWN.to_owned(), String::new())
}

/// Like [`info`], for a snapshot that the server takes for itself.
pub(super) fn own_info(who: &Principal, message: String) -> CommitInfo {
    CommitInfo {
        labels: BTreeMap::from([own_label()]),
        ..info(who, message)
    }
}

pub(super) fn info(who: &Principal, message: String) -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: who.agent.clone().unwrap_or_else(|| who.key.clone()),
        message,
        created: clock::now(),
        labels: BTreeMap::new(),
        reference: None,
    }
}

pub(super) fn losses_out(losses: &[Loss]) -> Vec<String> {
    let words = |loss: &Loss| {
        let what = match loss.kind {
            LossKind::Socket => "sockets, left out",
            LossKind::Pipe => "named pipes, left out",
            LossKind::Device => "devices, left out",
            LossKind::Vanished => "files that vanished while they were read, left out",
            LossKind::HardLink => "hard links, kept as separate files",
            LossKind::SpecialBits => "setuid, setgid and sticky bits, dropped",
            LossKind::ExtendedAttributes => "extended attributes, dropped",
            LossKind::Ignored => "paths that are `.git` or that `.gitignore` names, left out",
            _ => "others, left out",
        };
        format!("{what}: {}, such as `{}`", loss.count, loss.example)
    };
    losses.iter().map(words).collect()
}
