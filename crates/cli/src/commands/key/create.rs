use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::paths::KEYS;
use crate::input::duration::seconds;

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
pub(super) struct Create {
    /// Name that shows the purpose of the key
    name: String,

    /// Scope of the key; can be repeated. By default those of an ordinary user
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<api::Scope>,

    /// Agent that the key acts for; the key sees only the sandboxes of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,

    /// Time until the key expires: seconds, or with s, m, h or d
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires: Option<u32>,

    /// Exempt the key from the server's limits for ordinary keys
    #[arg(long)]
    no_limits: bool,
}

pub(super) fn run(call: &mut Call, args: Create) -> anyhow::Result<()> {
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
