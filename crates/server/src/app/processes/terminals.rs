//! Terminals in sandboxes: opens, resizes and closes them, and closes those
//! without a client.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use elevo_agent_link::AgentLinks;
use elevo_agent_link::{AgentLink, LinkError, ProcessKind, Terminal};
use elevo_api as api;
use elevo_api::Scope;
use elevo_core::{ErrorCode, SandboxId};
use parking_lot::{Mutex, MutexGuard};

use crate::app::access::principal::Principal;
use crate::app::access::secrets::Secrets;
use crate::app::processes::Processes;
use crate::app::processes::clients::{Client, Clients};
use crate::app::processes::output::Reading;
use crate::app::processes::wish::check_cwd;
use crate::app::requests::once::Once;
use crate::app::resources::Resources;
use crate::app::sandboxes::{Sandboxes, spec};
use crate::config::Config;
use crate::failure::{Failure, Result, short};
use crate::platform::audit::{Audit, Entry};
use crate::platform::clock;

/// The clients of each open terminal, by sandbox and terminal.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<HashMap<(SandboxId, String), Watch>>);

/// The clients of one terminal.
#[derive(Debug)]
struct Watch {
    count: usize,
    /// The time of the last connection or disconnection of a client.
    since: Instant,
}

/// The connection of a client to a terminal, counted until dropped.
pub(crate) struct Watcher {
    terminals: Arc<Terminals>,
    name: (SandboxId, String),
    client: Client,
}

impl Watcher {
    /// Waits until the same client has opened another connection.
    pub(crate) async fn replaced(&self) {
        self.client.replaced().await;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut watched = self.terminals.watched.lock();
        if let Some(watch) = watched.get_mut(&self.name) {
            watch.count -= 1;
            watch.since = clock::instant();
        }
    }
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, HashMap<(SandboxId, String), Watch>> {
        self.0.lock()
    }

    /// Adds `count` clients to a terminal, and restarts the time that it may be
    /// without a client.
    fn note(&self, name: (SandboxId, String), count: usize) {
        let since = clock::instant();
        let mut watched = self.lock();
        let watch = watched.entry(name).or_insert(Watch { count: 0, since });
        watch.count += count;
        watch.since = since;
    }
}

/// Manages the terminals of sandboxes through their workspace agents.
pub(crate) struct Terminals {
    audit: Arc<Audit>,
    config: Arc<Config>,
    links: AgentLinks,
    processes: Arc<Processes>,
    sandboxes: Arc<Sandboxes>,
    secrets: Arc<Secrets>,
    /// The clients of all open terminals.
    watched: Watched,
    /// The connected clients that have a name.
    clients: Arc<Clients>,
}

impl Terminals {
    pub(crate) fn new(
        resources: &Resources,
        processes: &Arc<Processes>,
        sandboxes: &Arc<Sandboxes>,
        secrets: &Arc<Secrets>,
    ) -> Self {
        Self {
            audit: resources.audit.clone(),
            config: resources.config.clone(),
            links: resources.links.clone(),
            processes: processes.clone(),
            sandboxes: sandboxes.clone(),
            secrets: secrets.clone(),
            watched: Watched::default(),
            clients: Arc::default(),
        }
    }

    pub(crate) async fn create(
        &self,
        who: &Principal,
        id: &SandboxId,
        wish: api::CreatePty,
        once: &Once,
    ) -> Result<String> {
        who.needs(Scope::Process)?;
        check_size(wish.cols, wish.rows)?;
        check_cwd(wish.cwd.as_deref())?;
        check_cwd(wish.shell.as_deref())
            .map_err(|_| Failure::invalid("`shell` must be an absolute path"))?;
        spec::check_envs(&wish.envs)?;
        let (link, sandbox) = self.sandboxes.agent_and_row(who, id).await?;
        let name = once.name("pty-");
        if once.is_again() && link.process(&name).is_some() {
            return Ok(name);
        }
        let terminal = Terminal {
            id: name.clone(),
            cols: wish.cols,
            rows: wish.rows,
            shell: wish.shell,
            cwd: wish.cwd,
            envs: self.secrets.with_variables(&sandbox, wish.envs)?,
        };
        link.open_terminal(terminal)
            .await
            .map_err(|error| match error {
                LinkError::TooMany { .. } => {
                    let message =
                        "this sandbox has reached its limit of terminals; close one of them";
                    Failure::new(ErrorCode::PtyLimitExceeded, message).retry_after(1)
                }
                error => error.into(),
            })?;
        self.watched.note((id.clone(), name.clone()), 0);
        Ok(name)
    }

    async fn terminal(&self, who: &Principal, id: &SandboxId, pty: &str) -> Result<AgentLink> {
        who.needs(Scope::Process)?;
        let link = self.sandboxes.agent_of(who, id).await?;
        let found = link
            .process(pty)
            .filter(|process| process.kind == ProcessKind::Terminal);
        found.ok_or_else(|| no_pty(pty))?;
        Ok(link)
    }

    pub(crate) async fn resize(
        &self,
        who: &Principal,
        id: &SandboxId,
        pty: &str,
        wish: api::Resize,
    ) -> Result<()> {
        check_size(wish.cols, wish.rows)?;
        let link = self.terminal(who, id, pty).await?;
        Ok(link.resize(pty, wish.cols, wish.rows).await?)
    }

    pub(crate) async fn close(&self, who: &Principal, id: &SandboxId, pty: &str) -> Result<()> {
        let link = self.terminal(who, id, pty).await?;
        link.close_terminal(pty).await?;
        self.watched.lock().remove(&(id.clone(), pty.to_owned()));
        Ok(())
    }

    /// Connects a client to a terminal, and ends its earlier connection. Returns
    /// the output from `offset` on. A client with an empty name is never the
    /// same as another one.
    pub(crate) async fn watch(
        self: &Arc<Self>,
        who: &Principal,
        id: &SandboxId,
        pty: &str,
        (client, offset): (&str, u64),
    ) -> Result<(Reading, Watcher)> {
        self.terminal(who, id, pty).await?;
        let name = (id.clone(), pty.to_owned());
        let reading = self.processes.attach(who, id, pty, offset).await;
        let reading = reading.map_err(|failure| match failure.code {
            ErrorCode::ProcessNotFound => no_pty(pty),
            _ => failure,
        })?;
        self.watched.note(name.clone(), 1);
        let watcher = Watcher {
            terminals: self.clone(),
            client: Clients::connect(&self.clients, &name, client),
            name,
        };
        Ok((reading, watcher))
    }

    /// Sends input to a terminal. Does not check the rights of the client: they
    /// were checked when the client connected.
    pub(crate) async fn input(&self, id: &SandboxId, pty: &str, data: Bytes) -> Result<()> {
        let link = self.links.connected(id).await;
        Ok(link.input(pty, data, false).await?)
    }

    /// Sends numbered input to a terminal, unless the terminal already has it
    /// from this client. Does not check the rights of the client either.
    pub(crate) async fn numbered_input(
        &self,
        id: &SandboxId,
        pty: &str,
        data: Bytes,
        (client, seq): (&str, u64),
    ) -> Result<()> {
        if seq == 0 {
            return Err(Failure::invalid("`seq` must be at least 1"));
        }
        let link = self.links.connected(id).await;
        Ok(link.numbered_input(pty, data, client, seq).await?)
    }

    /// Resizes a terminal for a client that is connected to it.
    pub(crate) async fn resize_now(
        &self,
        id: &SandboxId,
        pty: &str,
        cols: u16,
        rows: u16,
    ) -> Result<()> {
        check_size(cols, rows)?;
        let link = self.links.connected(id).await;
        Ok(link.resize(pty, cols, rows).await?)
    }

    /// Closes the terminals that have had no client for the configured time.
    pub(crate) async fn close_unwatched(&self) {
        let patience = self.config.limits.terminal_patience;
        let left: Vec<_> = {
            let mut watched = self.watched.lock();
            let is_left = |_: &(SandboxId, String), watch: &mut Watch| {
                watch.count == 0 && watch.since.elapsed() > patience
            };
            watched.extract_if(is_left).map(|(name, _)| name).collect()
        };
        for (sandbox, pty) in left {
            if let Some(link) = self.links.get(&sandbox) {
                // An error is ignored: the shell may have exited.
                let _ = link.close_terminal(&pty).await;
                tracing::info!(
                    %sandbox,
                    pty,
                    "closed a terminal that had no client for too long"
                );
                let entry = Entry {
                    event: "terminal.closed",
                    about: vec![
                        ("sandbox_id", sandbox.as_str().into()),
                        ("terminal_id", pty.into()),
                    ],
                    ..Entry::default()
                };
                self.audit.tell(entry).await;
            }
        }
    }

    /// Registers the open terminals of an agent that has connected. After a
    /// restart of the server, they are closed unless a client connects in time.
    pub(crate) fn note_terminals(&self, sandbox: &SandboxId) {
        let Some(link) = self.links.get(sandbox) else {
            return;
        };
        let open = link.processes().into_iter();
        for terminal in
            open.filter(|process| process.kind == ProcessKind::Terminal && process.exit.is_none())
        {
            self.watched.note((sandbox.clone(), terminal.id), 0);
        }
    }
}

fn check_size(cols: u16, rows: u16) -> Result<()> {
    match (1..=1000).contains(&cols) && (1..=1000).contains(&rows) {
        true => Ok(()),
        false => Err(Failure::invalid("`cols` and `rows` must be 1 to 1000")),
    }
}

pub(crate) fn no_pty(pty: &str) -> Failure {
    let message = format!("there is no terminal `{}`", short(pty));
    Failure::new(ErrorCode::PtyNotFound, message).about("ptyId", short(pty))
}
