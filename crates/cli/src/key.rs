//! The commands of `elevo key` and `elevo agent`, which control access to the
//! server.

use clap::{Args, Subcommand};
use elevo_api as api;

use crate::client::Reach;
use crate::errors::Exit;
use crate::service::{self, Call, Table, relative};

/// Manage keys, with which clients authenticate.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  export ELEVO_API_KEY=$(elevo key create ci)
  elevo key create bot --agent \"$agent\" --expires 86400
  elevo key ls
  elevo key rm key-…"
)]
pub(crate) struct Key {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    Create(Create),
    /// List keys, including revoked ones
    #[command(after_help = "\
Examples:
  elevo key ls
  elevo key ls --json | jq -r .name")]
    Ls,
    /// Revoke keys
    #[command(after_help = "\
If a key cannot be revoked, the command reports it and revokes the others.

Examples:
  elevo key rm key-…")]
    Rm {
        /// The keys' ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

/// Create a key and print its secret, which is not stored anywhere.
#[derive(Debug, Args)]
#[command(after_help = "\
An ordinary key creates and uses sandboxes. --scope gives other rights:
sandboxes:read, sandboxes:write, process, files, host, templates:write, keys,
system.

Examples:
  elevo key create ci
  elevo key create watcher --scope sandboxes:read --expires 3600
  elevo key create load-test --no-limits")]
struct Create {
    /// Name that shows the purpose of the key
    name: String,

    /// Scope of the key; can be repeated. By default those of an ordinary user
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<api::Scope>,

    /// Agent that the key acts for; the key sees only the sandboxes of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,

    /// Seconds until the key expires
    #[arg(long, value_name = "SECONDS")]
    expires: Option<u32>,

    /// Exempt the key from the server's limits for ordinary keys
    #[arg(long)]
    no_limits: bool,
}

/// Manage agents, whose keys see only the agent's own sandboxes.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  agent=$(elevo agent add reviewer)
  elevo key create reviewer --agent \"$agent\""
)]
pub(crate) struct Agent {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Add an agent and print its id
    #[command(after_help = "\
Examples:
  elevo agent add reviewer")]
    Add {
        /// Name of the agent
        name: String,
    },
    /// List agents
    #[command(after_help = "\
Examples:
  elevo agent ls")]
    Ls,
}

const KEYS: [&str; 3] = ["api", "v1", "keys"];
const AGENTS: [&str; 3] = ["api", "v1", "agents"];

pub(crate) fn run(key: Key) -> anyhow::Result<Exit> {
    service::run(&key.reach, |call| {
        match key.command {
            KeyCommand::Create(args) => create(call, args)?,
            KeyCommand::Ls => ls(call)?,
            KeyCommand::Rm { ids } => return call.delete_all("keys", &ids, "Revoked"),
        }
        Ok(Exit::Done)
    })
}

fn create(call: &mut Call, args: Create) -> anyhow::Result<()> {
    let wish = api::CreateKey {
        name: args.name,
        scopes: (!args.scopes.is_empty()).then_some(args.scopes),
        agent: args.agent,
        limits: args.no_limits.then(api::KeyLimits::default),
        expires_in_seconds: args.expires,
    };
    let made: api::NewKey = call.wait(call.client.post(&KEYS, &wish))?;
    if call.output.is_json() {
        call.output.value(&made)?;
        return Ok(());
    }
    call.output.line(made.secret.unwrap_or_default())?;
    call.output.finish()?;
    let id = &made.key.id;
    call.note(&format!(
        "this is the secret of {id}; it is shown only once"
    ));
    Ok(())
}

fn ls(call: &mut Call) -> anyhow::Result<()> {
    let list: api::KeyList = call.wait(call.client.get(&KEYS))?;
    let mut table = Table::new(&["ID", "NAME", "STATE", "CREATED", "AGENT", "SCOPES"]);
    for key in &list.items {
        if call.output.is_json() {
            call.output.value(key)?;
            continue;
        }
        let state = match (&key.revoked_at, &key.expires_at) {
            (Some(revoked), _) => format!("revoked {}", relative(revoked)),
            (None, Some(expires)) => format!("expires {}", relative(expires)),
            (None, None) => "valid".into(),
        };
        table.row([
            key.id.clone(),
            key.name.clone(),
            state,
            relative(&key.created_at),
            key.agent.clone().unwrap_or("-".into()),
            key.scopes.join(" "),
        ]);
    }
    match call.output.is_json() {
        true => Ok(()),
        false => table.print(&mut call.output),
    }
}

pub(crate) fn run_agent(agent: Agent) -> anyhow::Result<Exit> {
    service::run(&agent.reach, |call| {
        match agent.command {
            AgentCommand::Add { name } => add_agent(call, name)?,
            AgentCommand::Ls => ls_agents(call)?,
        }
        Ok(Exit::Done)
    })
}

fn add_agent(call: &mut Call, name: String) -> anyhow::Result<()> {
    let wish = api::CreateAgent { name };
    let made: api::Agent = call.wait(call.client.post(&AGENTS, &wish))?;
    match call.output.is_json() {
        true => call.output.value(&made)?,
        false => call.output.line(&made.id)?,
    }
    Ok(())
}

fn ls_agents(call: &mut Call) -> anyhow::Result<()> {
    let list: api::AgentList = call.wait(call.client.get(&AGENTS))?;
    let mut table = Table::new(&["ID", "NAME", "ADDED"]);
    for agent in &list.items {
        match call.output.is_json() {
            true => call.output.value(agent)?,
            false => table.row([
                agent.id.clone(),
                agent.name.clone(),
                relative(&agent.created_at),
            ]),
        }
    }
    match (call.output.is_json(), list.items.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => {
            call.note("there are no agents; `elevo agent add NAME` adds one");
            Ok(())
        }
        (false, false) => table.print(&mut call.output),
    }
}
