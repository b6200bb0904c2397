use clap::Args;
use serde_json::json;

use crate::client::contexts::{self, Contexts, LOCAL};
use crate::errors::Exit;
use crate::output::Output;
use crate::output::notes::field;

/// Show a context, without its key.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo context show
  elevo context show prod --json")]
pub(super) struct Show {
    /// Name of the context; by default the current one
    name: Option<String>,
}

pub(super) fn run(args: &Show, json: bool) -> anyhow::Result<Exit> {
    let all = Contexts::read()?;
    let current = all.current.as_deref().unwrap_or(LOCAL);
    let name = args.name.as_deref().unwrap_or(current);
    let context = match name {
        LOCAL => None,
        name => Some(all.get(name)?),
    };
    let server = context.map(|context| context.server.as_str());
    let has_ca = context.is_some_and(|context| context.ca.is_some());
    let file = contexts::path().filter(|_| context.is_some());
    let file = file.map(|path| path.display().to_string());
    let mut output = Output::new(json);
    if json {
        output.value(&json!({
            "context": name,
            "server": server,
            "current": name == current,
            "ca": has_ca,
            "file": file,
        }))?;
    } else {
        field(&mut output, "context", name)?;
        field(
            &mut output,
            "server",
            server.unwrap_or("the server on this machine"),
        )?;
        let is_current = if name == current { "yes" } else { "no" };
        field(&mut output, "current", is_current)?;
        if let Some(file) = file {
            let trusted = if has_ca {
                "the system's and its own"
            } else {
                "the system's"
            };
            field(&mut output, "authorities", trusted)?;
            field(&mut output, "key in", &file)?;
        }
    }
    output.finish()?;
    Ok(Exit::Done)
}
