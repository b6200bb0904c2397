//! `elevo logout`: deletes a stored server and its key.

use clap::Args;
use serde_json::json;

use crate::client::contexts;
use crate::errors::{ContextProblem, Exit};
use crate::output::Output;
use crate::output::notes::print_note;

/// Delete the stored key of a server.
#[derive(Debug, Args)]
#[command(after_help = "\
Deletes a context of `elevo login` from this machine. The key itself stays valid
until it expires or `elevo key` revokes it. Commands that name no server then use
the server on this machine.

Examples:
  elevo logout
  elevo logout prod")]
pub(crate) struct Logout {
    /// Name of the context; by default the current one
    name: Option<String>,

    /// Print JSON, errors included
    #[arg(long)]
    pub(crate) json: bool,

    /// Show no notes
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: &Logout) -> anyhow::Result<Exit> {
    let name = contexts::change(|all| {
        let name = args.name.clone().or_else(|| all.current.clone());
        let name = name.ok_or(ContextProblem::NotLoggedIn)?;
        all.get(&name)?;
        all.contexts.remove(&name);
        if all.current.as_ref() == Some(&name) {
            all.current = None;
        }
        Ok(name)
    })?;
    let mut output = Output::new(args.json);
    match args.json {
        true => output.value(&json!({ "deleted": name }))?,
        false => output.line(format!("Deleted the context `{name}`"))?,
    }
    output.finish()?;
    if !args.quiet && !args.json {
        print_note("the key stays valid on the server; revoke it there if it is not needed");
    }
    Ok(Exit::Done)
}
