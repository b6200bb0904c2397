//! Commands in sandboxes: runs, lists and signals them, and sends their input.

mod claims;
mod clients;
pub(crate) mod output;
pub(crate) mod terminals;
mod wish;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use elevo_agent_link::AgentLinks;
use elevo_agent_link::{AgentLink, Command, LinkError, Output, Process, ProcessKind};
use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_core::{ErrorCode, SandboxId};

use crate::app::access::principal::Principal;
use crate::app::access::secrets::Secrets;
use crate::app::pages::PageQuery;
use crate::app::processes::output::{Ended, Reading, exit_code};
use crate::app::requests::once::Once;
use crate::app::resources::Resources;
use crate::app::sandboxes::Sandboxes;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::tenant_stores::TenantStores;
use crate::config::Config;
use crate::failure::{Failure, Result, short};
use crate::platform::audit::{self, Audit, Entry};
use crate::platform::clock;

/// The result of running a command. A request with `background` gets `Started`,
/// one with `stream` gets `Stream`, and any other gets `Ended`.
pub(crate) enum Streamed {
    Started(api::CommandStarted),
    Ended(Box<Ended>),
    /// The output as it arrives, and the maximum bytes to send.
    Stream(Reading, Option<u64>),
}

/// Bytes of output in the response, unless the request sets `maxOutputSize`.
const DEFAULT_OUTPUT: u64 = 1 << 20;

/// The outcome of a request to start a command.
enum Started {
    /// The command has started now. Its output is absent if it runs in the
    /// background.
    New(Option<Output>),
    /// An earlier request has started the command.
    Before,
}

/// Runs commands in sandboxes through their workspace agents.
pub(crate) struct Processes {
    catalog: Arc<dyn Catalog>,
    links: AgentLinks,
    audit: Arc<Audit>,
    config: Arc<Config>,
    stores: Arc<TenantStores>,
    sandboxes: Arc<Sandboxes>,
    secrets: Arc<Secrets>,
    /// Locks of commands whose ids clients have chosen, while they start.
    starting: SandboxLocks,
}

impl Processes {
    pub(crate) fn new(
        resources: &Resources,
        sandboxes: &Arc<Sandboxes>,
        secrets: &Arc<Secrets>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            links: resources.links.clone(),
            audit: resources.audit.clone(),
            config: resources.config.clone(),
            sandboxes: sandboxes.clone(),
            secrets: secrets.clone(),
            stores: resources.stores.clone(),
            starting: SandboxLocks::default(),
        }
    }

    /// Runs a command. Depending on the request, waits for the end of the
    /// command, returns its output as a stream, or leaves it running in the
    /// background.
    pub(crate) async fn run(
        self: &Arc<Self>,
        who: &Principal,
        id: &SandboxId,
        wish: api::RunCommand,
        once: Once,
    ) -> Result<Streamed> {
        who.needs(Scope::Process)?;
        if let Some(command) = once.noted_command() {
            return self.run_before(who, id, command, &wish).await;
        }
        let began = clock::instant();
        let name = wish.command_id.clone();
        let name = name.unwrap_or_else(|| once.name("cmd-"));
        let timeout = self.config.limits.command_timeout;
        let mut command = wish::command(&wish, name, timeout)?;
        let (link, sandbox) = self.sandboxes.agent_and_row(who, id).await?;
        command.envs = self.secrets.with_variables(&sandbox, command.envs)?;
        if let Some(parent) = crate::platform::trace::traceparent() {
            command.envs.entry("TRACEPARENT".into()).or_insert(parent);
        }
        let process = command.id.clone();
        let started = self.start(who, id, &link, command, &wish, &once).await?;
        let output = match started {
            Started::Before => return self.run_before(who, id, process, &wish).await,
            Started::New(output) => output,
        };
        crate::platform::metrics::command_started(began.elapsed());
        let Some(output) = output else {
            return Ok(Streamed::Started(api::CommandStarted {
                command_id: process,
            }));
        };
        let reading = Reading {
            links: self.links.clone(),
            sandbox: id.clone(),
            process,
            position: 0,
            output,
        };
        if wish.stream {
            return Ok(Streamed::Stream(reading, wish.max_output_size));
        }
        let room = wish.max_output_size.unwrap_or(DEFAULT_OUTPUT);
        let ended = self.collect(who.tenant, reading, room).await;
        crate::platform::metrics::command_ended(began.elapsed());
        Ok(Streamed::Ended(Box::new(ended?)))
    }

    /// Starts a command, unless an earlier request has started it.
    async fn start(
        &self,
        who: &Principal,
        id: &SandboxId,
        link: &AgentLink,
        command: Command,
        wish: &api::RunCommand,
        once: &Once,
    ) -> Result<Started> {
        let process = command.id.clone();
        let mut turn = None;
        if wish.command_id.is_some() {
            // Another request with the same id waits until this one has started
            // the command, and then attaches to it.
            let lock = format!("{id}/{process}");
            turn = Some(self.starting.hold(&lock).await);
            if !self.claim(who, id, link, &process, wish).await? {
                once.note_command(&process).await?;
                audit::about("command_id", process.as_str());
                audit::detail("attached", true);
                return Ok(Started::Before);
            }
        }
        // The command is recorded before the agent receives it, so that a retry
        // never starts it twice.
        let noted = once.note_command(&process).await;
        if noted.is_err() && turn.is_some() {
            self.release_claim(who, id, &process).await?;
        }
        noted?;
        self.audit_command(who, id, &command).await;
        match link.run(command).await {
            Ok(output) => Ok(Started::New(output)),
            Err(error) => {
                // The command did not start, so a retry may start it.
                if !may_have_arrived(&error) {
                    if turn.is_some() {
                        self.release_claim(who, id, &process).await?;
                    }
                    once.take_back().await?;
                }
                Err(error.into())
            }
        }
    }

    /// Returns the command that an earlier attempt of this request has started,
    /// with its output from the beginning.
    async fn run_before(
        self: &Arc<Self>,
        who: &Principal,
        id: &SandboxId,
        command: String,
        wish: &api::RunCommand,
    ) -> Result<Streamed> {
        let attached = self.attach(who, id, &command, 0).await;
        let reading = attached.map_err(|failure| match failure.code {
            ErrorCode::AgentUnreachable | ErrorCode::StorageFailed => failure,
            _ => output_gone(&command),
        })?;
        if wish.background {
            let command_id = command;
            return Ok(Streamed::Started(api::CommandStarted { command_id }));
        }
        if wish.stream {
            return Ok(Streamed::Stream(reading, wish.max_output_size));
        }
        let room = wish.max_output_size.unwrap_or(DEFAULT_OUTPUT);
        let ended = self.collect(who.tenant, reading, room).await?;
        Ok(Streamed::Ended(Box::new(ended)))
    }

    /// Records a command in the audit log when the command begins, because the
    /// server may stop before the command ends. Does not wait until the record
    /// is on disk, which would delay the command: the audit layer waits for
    /// that before it sends the response.
    async fn audit_command(&self, who: &Principal, sandbox: &str, command: &Command) {
        let mut details = serde_json::Map::new();
        let shown = match command.args.is_empty() {
            true => self.audit.shown_command(&command.command),
            false => self.audit.shown_command(&command.args.join(" ")),
        };
        details.insert("command".into(), shown);
        if let Some(cwd) = &command.cwd {
            details.insert("cwd".into(), audit::cut(cwd));
        }
        details.insert("background".into(), command.background.into());
        let entry = Entry {
            event: "command.run",
            about: vec![
                ("sandbox_id", sandbox.into()),
                ("command_id", command.id.as_str().into()),
            ],
            who: Some(who.into()),
            request_id: audit::request_id(),
            details,
            ..Entry::default()
        };
        audit::is_written(self.audit.add(entry).await);
    }

    /// Returns the output of a command or terminal, starting at an offset in
    /// bytes.
    pub(crate) async fn attach(
        self: &Arc<Self>,
        who: &Principal,
        id: &SandboxId,
        process: &str,
        offset: u64,
    ) -> Result<Reading> {
        who.needs(Scope::Process)?;
        let link = self.sandboxes.agent_of(who, id).await?;
        let output = link.attach(process, offset).await;
        let output = output.map_err(|error| about_process(error, process))?;
        Ok(Reading {
            links: self.links.clone(),
            sandbox: id.clone(),
            process: process.to_owned(),
            position: offset,
            output,
        })
    }

    pub(crate) async fn list(
        &self,
        who: &Principal,
        id: &SandboxId,
        page: PageQuery,
    ) -> Result<api::CommandPage> {
        who.needs(Scope::Process)?;
        let link = self.sandboxes.agent_of(who, id).await?;
        let mut commands = link.processes();
        commands.retain(|process| process.kind == ProcessKind::Command);
        let key = |process: &Process| (process.started_ms, process.id.clone());
        commands.sort_by_key(key);
        let after = page.parse(|text| {
            let (started, id) = text.split_once('_')?;
            Some((started.parse().ok()?, id.to_owned()))
        })?;
        let (commands, next) = page.cut(commands, after.as_ref(), key);
        let items = commands.into_iter().map(command_out).collect();
        let next = next.map(|(started, id)| format!("{started}_{id}"));
        Ok(api::CommandPage { items, next })
    }

    pub(crate) async fn get(
        &self,
        who: &Principal,
        id: &SandboxId,
        process: &str,
    ) -> Result<api::CommandInfo> {
        who.needs(Scope::Process)?;
        let link = self.sandboxes.agent_of(who, id).await?;
        let found = link
            .process(process)
            .filter(|process| process.kind == ProcessKind::Command);
        let found = found.ok_or_else(|| about_process(LinkError::NoSuchProcess, process))?;
        Ok(command_out(found))
    }

    pub(crate) async fn kill(
        &self,
        who: &Principal,
        id: &SandboxId,
        process: &str,
        wish: api::Kill,
    ) -> Result<()> {
        who.needs(Scope::Process)?;
        let signal = wish.signal.unwrap_or(15);
        if !(1..=31).contains(&signal) {
            return Err(Failure::invalid("`signal` must be 1 to 31"));
        }
        let link = self.sandboxes.agent_of(who, id).await?;
        let sent = link.signal(process, signal).await;
        sent.map_err(|error| about_process(error, process))
    }

    pub(crate) async fn input(
        &self,
        who: &Principal,
        id: &SandboxId,
        process: &str,
        wish: api::CommandInput,
        once: Once,
    ) -> Result<()> {
        who.needs(Scope::Process)?;
        if once.noted::<bool>().is_some() {
            let message = "the server stopped while it sent this input, which may have arrived; \
                           check the output of the command before you send the input again";
            return Err(Failure::new(ErrorCode::OutcomeUnknown, message));
        }
        let data = STANDARD.decode(&wish.data);
        let data = data.map_err(|_| Failure::invalid("`data` is not valid base64"))?;
        if data.len() > 1 << 20 {
            return Err(Failure::invalid("`data` has more than 1 MiB"));
        }
        let link = self.sandboxes.agent_of(who, id).await?;
        once.note(&true).await?;
        let sent = link.input(process, data.into(), wish.eof).await;
        if sent.as_ref().is_err_and(|error| !may_have_arrived(error)) {
            once.take_back().await?;
        }
        sent.map_err(|error| about_process(error, process))
    }
}

/// Returns true if the agent may have received the message despite this error.
fn may_have_arrived(error: &LinkError) -> bool {
    let refused = matches!(
        error,
        LinkError::NoSuchProcess
            | LinkError::Ended
            | LinkError::CannotStart { .. }
            | LinkError::TooMany { .. }
            | LinkError::Invalid(_)
    );
    !refused
}

fn output_gone(command: &str) -> Failure {
    let message = "an earlier request started this command, but its output is no longer available";
    Failure::new(ErrorCode::OutputGone, message).about("commandId", command)
}

fn about_process(error: LinkError, process: &str) -> Failure {
    match error {
        LinkError::NoSuchProcess => {
            let message = format!("there is no command `{}`", short(process));
            Failure::new(ErrorCode::ProcessNotFound, message).about("commandId", short(process))
        }
        error => error.into(),
    }
}

fn command_out(process: Process) -> api::CommandInfo {
    let exit = process.exit.as_ref();
    api::CommandInfo {
        running: exit.is_none(),
        pid: process.pid,
        started_at: clock::text_of_millis(process.started_ms),
        ended_at: process.ended_ms.map(clock::text_of_millis),
        output_size: process.end,
        exit_code: exit.map(exit_code),
        signal: exit.and_then(|exit| exit.signal),
        timed_out: exit.is_some_and(|exit| exit.timed_out),
        command_id: process.id,
        command: process.command,
    }
}
