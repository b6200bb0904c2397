//! `elevo whoami`: shows the server and the key that commands use.

use clap::Args;
use elevo_api::{Health, Me};
use elevo_core::ErrorCode;
use serde_json::json;

use crate::client::contexts::LOCAL;
use crate::client::{KeySource, Reach, run_with_client};
use crate::errors::Exit;
use crate::output::Output;
use crate::output::notes::field;

/// Show the server and the key that commands use.
#[derive(Debug, Args)]
#[command(after_help = "\
Shows the address and version of the server, the context that names it, and the
origin of the key. If the server accepts the key, also shows the name, the
tenant, the agent and the scopes of the key, its sandboxes and its limit of
them. The exit code is 1 if the server does not accept the key.

Examples:
  elevo whoami
  elevo whoami --context prod
  elevo whoami --json | jq -r .server
  elevo whoami --json | jq .me.left              the part of the limits that is left")]
pub(crate) struct Whoami {
    #[command(flatten)]
    pub(crate) reach: Reach,
}

pub(crate) fn run(args: &Whoami) -> anyhow::Result<Exit> {
    let found = args.reach.at.find()?;
    let source = found.key_source.clone();
    let context = found.context.clone().unwrap_or_else(|| LOCAL.into());
    let is_named = found.context.is_some() || matches!(source, KeySource::Owner(_));
    let context = is_named.then_some(context);
    run_with_client(found.client()?, args.reach.json, args.reach.quiet, |call| {
        let health: Health = call.wait(call.client.get(&["health"]))?;
        let me = match call.wait(call.client.get::<Me>(&["api", "v1", "me"])) {
            Err(error) if error.code() == Some(ErrorCode::Unauthorized) => None,
            me => Some(me?),
        };
        let server = call.client.url().to_owned();
        let key = describe(&source);
        if call.output.is_json() {
            call.output.value(&json!({
                "server": server,
                "version": health.version,
                "context": context,
                "key_from": key,
                "key_valid": me.is_some(),
                "me": me,
            }))?;
        } else {
            let output = &mut call.output;
            field(output, "server", &server)?;
            field(output, "version", &health.version)?;
            field(output, "context", context.as_deref().unwrap_or("none"))?;
            match &me {
                Some(me) => {
                    field(output, "key", &format!("{} (from {key})", me.key.name))?;
                    print(output, me)?;
                }
                None => field(output, "key", &format!("{key} (rejected by the server)"))?,
            }
        }
        Ok(match me {
            Some(_) => Exit::Done,
            None => Exit::Failed,
        })
    })
}

/// Prints the owner, the scopes and the usage of a key.
fn print(output: &mut Output, me: &Me) -> anyhow::Result<()> {
    field(output, "tenant", &me.tenant.name)?;
    if let Some(agent) = &me.agent {
        field(output, "agent", &agent.name)?;
    }
    field(output, "scopes", &me.scopes.join(", "))?;
    let used = me.usage.sandboxes;
    let sandboxes = match me.left.sandboxes {
        Some(left) => format!("{used}, and {left} more are allowed"),
        None => used.to_string(),
    };
    Ok(field(output, "sandboxes", &sandboxes)?)
}

fn describe(source: &KeySource) -> String {
    match source {
        KeySource::File(path) | KeySource::Owner(path) => path.display().to_string(),
        KeySource::Variable => "ELEVO_API_KEY".into(),
        KeySource::Context => "the context".into(),
    }
}
