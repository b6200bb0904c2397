use clap::Args;
use serde_json::json;

use crate::client::contexts::{Contexts, LOCAL};
use crate::errors::Exit;
use crate::output::Output;
use crate::output::format::first_line;

/// List the contexts; `*` marks the current one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo context ls
  elevo context ls --json | jq -r .context")]
pub(super) struct Ls {}

pub(super) fn run(json: bool) -> anyhow::Result<Exit> {
    let all = Contexts::read()?;
    let mut output = Output::new(json);
    let current = all.current.as_deref().unwrap_or(LOCAL);
    let stored = all.contexts.iter();
    let stored = stored.map(|(name, context)| (name.as_str(), Some(context.server.as_str())));
    for (name, server) in std::iter::once((LOCAL, None)).chain(stored) {
        let is_current = name == current;
        if json {
            output.value(&json!({ "context": name, "server": server, "current": is_current }))?;
        } else {
            let mark = if is_current { '*' } else { ' ' };
            let server = first_line(server.unwrap_or("the server on this machine"));
            output.line(format!("{mark} {name:<24} {server}"))?;
        }
    }
    output.finish()?;
    Ok(Exit::Done)
}
