//! Commands in sandboxes: runs, lists and signals them, and sends their input.

pub(crate) mod output;
pub(crate) mod terminals;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use elevo_agent_link::AgentLinks;
use elevo_agent_link::{Command, LinkError, Process, ProcessKind};
use elevo_api as api;
use elevo_api::Scope;
use elevo_core::{ErrorCode, SandboxId};

use crate::app::access::principal::Principal;
use crate::app::access::secrets::Secrets;
use crate::app::pages::PageQuery;
use crate::app::processes::output::{Ended, Reading, exit_code};
use crate::app::requests::once::Once;
use crate::app::resources::Resources;
use crate::app::sandboxes::{Sandboxes, spec};
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
/// Maximum of `maxOutputSize`.
const MAX_OUTPUT: u64 = 64 << 20;
/// Maximum of `timeout`, in milliseconds.
const DAY: u32 = 86_400_000;

/// Runs commands in sandboxes through their workspace agents.
pub(crate) struct Processes {
    links: AgentLinks,
    audit: Arc<Audit>,
    config: Arc<Config>,
    stores: Arc<TenantStores>,
    sandboxes: Arc<Sandboxes>,
    secrets: Arc<Secrets>,
}

impl Processes {
    pub(crate) fn new(
        resources: &Resources,
        sandboxes: &Arc<Sandboxes>,
        secrets: &Arc<Secrets>,
    ) -> Self {
        Self {
            links: resources.links.clone(),
            audit: resources.audit.clone(),
            config: resources.config.clone(),
            sandboxes: sandboxes.clone(),
            secrets: secrets.clone(),
            stores: resources.stores.clone(),
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
        let started = clock::instant();
        let mut command = self.command(&wish, once.name("cmd-"))?;
        let (link, sandbox) = self.sandboxes.agent_and_row(who, id).await?;
        command.envs = self.secrets.with_variables(&sandbox, command.envs)?;
        if let Some(parent) = crate::platform::trace::traceparent() {
            command.envs.entry("TRACEPARENT".into()).or_insert(parent);
        }
        let process = command.id.clone();
        // The command is recorded before the agent receives it, so that a retry
        // never starts it twice.
        once.note_command(&process).await?;
        self.audit_command(who, id, &command).await;
        let output = match link.run(command).await {
            Ok(output) => output,
            Err(error) => {
                // The command did not start, so a retry may start it.
                if !may_have_arrived(&error) {
                    once.take_back().await?;
                }
                return Err(error.into());
            }
        };
        crate::platform::metrics::command_started(started.elapsed());
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
        crate::platform::metrics::command_ended(started.elapsed());
        Ok(Streamed::Ended(Box::new(ended?)))
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
        let shown = self.audit.shown_command(&command.command);
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

    fn command(&self, wish: &api::RunCommand, id: String) -> Result<Command> {
        if wish.command.is_empty() || wish.command.len() > 128 << 10 || wish.command.contains('\0')
        {
            let message = "`command` must have 1 to 131072 bytes, none of them NUL";
            return Err(Failure::invalid(message));
        }
        if wish.background && wish.stream {
            let message =
                "`background` and `stream` cannot be combined; use `background`, then attach to it";
            return Err(Failure::invalid(message));
        }
        if wish.max_output_size.is_some_and(|size| size > MAX_OUTPUT) {
            let message = format!(
                "`maxOutputSize` must be at most {MAX_OUTPUT} bytes; use `stream` for more"
            );
            return Err(Failure::new(ErrorCode::ResourceRefused, message));
        }
        if wish.timeout.is_some_and(|timeout| timeout > DAY) {
            let message =
                format!("`timeout` must be at most {DAY} milliseconds, or 0 for no timeout");
            return Err(Failure::new(ErrorCode::ResourceRefused, message));
        }
        if wish
            .stdin
            .as_ref()
            .is_some_and(|stdin| stdin.len() > 1 << 20)
        {
            let message = "`stdin` has more than 1 MiB; use `openStdin` and send it in parts";
            return Err(Failure::invalid(message));
        }
        check_cwd(wish.cwd.as_deref())?;
        spec::check_envs(&wish.envs)?;
        let default = match wish.background {
            true => 0,
            false => self.config.limits.command_timeout.as_millis() as u32,
        };
        let timeout = wish.timeout.unwrap_or(default);
        Ok(Command {
            id,
            command: wish.command.clone(),
            cwd: wish.cwd.clone(),
            envs: wish.envs.clone(),
            timeout: (timeout > 0).then(|| Duration::from_millis(timeout.into())),
            background: wish.background,
            stdin: Bytes::from(wish.stdin.clone().unwrap_or_default()),
            open_stdin: wish.open_stdin,
            read: !wish.background,
        })
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
    let message = "an earlier attempt started the command of this request, but its output is no \
                   longer available";
    Failure::new(ErrorCode::OutputGone, message).about("commandId", command)
}

pub(crate) fn check_cwd(cwd: Option<&str>) -> Result<()> {
    match cwd {
        Some(cwd) if !cwd.starts_with('/') || cwd.contains('\0') || cwd.len() > 4096 => Err(
            Failure::invalid("`cwd` must be an absolute path of at most 4096 bytes"),
        ),
        _ => Ok(()),
    }
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
        started_at: process.started_ms,
        output_size: process.end,
        exit_code: exit.map(exit_code),
        signal: exit.and_then(|exit| exit.signal),
        timed_out: exit.is_some_and(|exit| exit.timed_out),
        command_id: process.id,
        command: process.command,
    }
}
