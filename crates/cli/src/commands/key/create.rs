use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{AgentNames, Noun, find_some};
use crate::client::paths::KEYS;
use crate::errors::FileProblem;
use crate::input::duration::seconds;

/// Create a key and print its secret, which is not stored anywhere.
#[derive(Debug, Args)]
#[command(after_help = "\
An ordinary key has the scopes sandboxes:read, sandboxes:write, process, files,
projects:read and projects:write. --scope names others instead: host,
templates:write, keys, projects:admin, reviews, webhooks, system.

Examples:
  elevo key create ci
  elevo key create --agent reviewer --expires 7d -o reviewer.key
  elevo key create watcher --scope sandboxes:read --expires 1h
  elevo key create load-test --no-limits")]
pub(super) struct Create {
    /// Name that shows the purpose of the key; by default that of the agent
    #[arg(required_unless_present = "agent")]
    name: Option<String>,

    /// Scope of the key; can be repeated. By default those of an ordinary key
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<api::Scope>,

    /// Agent that the key acts for; the key sees only the sandboxes of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Time until the key expires: seconds, or with s, m, h or d
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires: Option<u32>,

    /// Exempt the key from the server's limits for ordinary keys
    #[arg(long)]
    no_limits: bool,

    /// Write the secret to a new file, readable by this user only
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(call: &mut Call, args: Create) -> anyhow::Result<()> {
    let agent = find_some(call, Noun::Agent, args.agent.as_ref())?;
    let name = match (args.name, &agent) {
        (Some(name), _) => name,
        (None, agent) => AgentNames::request(call).or_dash(agent.as_deref()),
    };
    let wish = api::CreateKey {
        name,
        scopes: (!args.scopes.is_empty()).then_some(args.scopes),
        agent,
        limits: args.no_limits.then(api::KeyLimits::default),
        expires_in_seconds: args.expires,
    };
    match args.output {
        None => {
            let made = create(call, &wish)?;
            print(call, made, None)
        }
        Some(path) => {
            // Created before the key, so that no secret is lost.
            let mut file = private_file(&path)?;
            let made = create(call, &wish).inspect_err(|_| {
                let _ = fs::remove_file(&path);
            })?;
            let secret = made.secret.clone().unwrap_or_default();
            let written = writeln!(file, "{secret}").and_then(|()| file.sync_all());
            written.map_err(|source| FileProblem::not_written(&path, source))?;
            print(call, made, Some(&path))
        }
    }
}

fn create(call: &Call, wish: &api::CreateKey) -> anyhow::Result<api::NewKey> {
    Ok(call.wait(call.client.post(&KEYS, wish))?)
}

fn print(call: &mut Call, mut made: api::NewKey, file: Option<&Path>) -> anyhow::Result<()> {
    if call.output.is_json() {
        made.secret = made.secret.filter(|_| file.is_none());
        return Ok(call.output.value(&made)?);
    }
    let id = made.key.id;
    match file {
        None => {
            call.output.line(made.secret.unwrap_or_default())?;
            call.output.finish()?;
            call.note(&format!(
                "this is the secret of {id}; it is shown only once"
            ));
        }
        Some(path) => {
            call.output.line(id)?;
            call.output.finish()?;
            call.note(&format!("its secret is in {}", path.display()));
        }
    }
    Ok(())
}

fn private_file(path: &Path) -> Result<File, FileProblem> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    file.map_err(|source| FileProblem::not_written(path, source))
}
