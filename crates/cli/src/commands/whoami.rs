//! `elevo whoami`: shows the server and the key that commands use.

use clap::Args;
use elevo_api::Health;
use elevo_core::ErrorCode;
use serde_json::{Value, json};

use crate::client::contexts::LOCAL;
use crate::client::{KeySource, Reach, run_with_client};
use crate::errors::Exit;
use crate::output::notes::field;

/// Show the server and the key that commands use.
#[derive(Debug, Args)]
#[command(after_help = "\
Shows the address and version of the server, the context that names it, and the
origin of the key, and checks that the server accepts the key. The exit code is
1 if it does not.

Examples:
  elevo whoami
  elevo whoami --context prod
  elevo whoami --json | jq -r .server")]
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
        let checked = call.wait(call.client.get::<Value>(&["api", "v1", "templates"]));
        let is_valid = match checked.as_ref().err().and_then(|error| error.code()) {
            Some(ErrorCode::Unauthorized) => false,
            Some(ErrorCode::Forbidden) => true,
            _ => checked.map(|_| true)?,
        };
        let server = call.client.url().to_owned();
        let key = describe(&source);
        if call.output.is_json() {
            call.output.value(&json!({
                "server": server,
                "version": health.version,
                "context": context,
                "key_from": key,
                "key_valid": is_valid,
            }))?;
        } else {
            let output = &mut call.output;
            field(output, "server", &server)?;
            field(output, "version", &health.version)?;
            field(output, "context", context.as_deref().unwrap_or("none"))?;
            let rejected = if is_valid {
                ""
            } else {
                " (rejected by the server)"
            };
            field(output, "key", &format!("{key}{rejected}"))?;
        }
        Ok(match is_valid {
            true => Exit::Done,
            false => Exit::Failed,
        })
    })
}

fn describe(source: &KeySource) -> String {
    match source {
        KeySource::File(path) | KeySource::Owner(path) => path.display().to_string(),
        KeySource::Variable => "ELEVO_API_KEY".into(),
        KeySource::Context => "the context".into(),
    }
}
