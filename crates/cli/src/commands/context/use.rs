use clap::Args;
use serde_json::json;

use crate::client::contexts::{self, LOCAL};
use crate::errors::Exit;
use crate::output::Output;
use crate::output::notes::print_note;

/// Choose the server of commands that name none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo context use prod
  elevo context use local       the server on this machine")]
pub(super) struct Use {
    /// Name of the context
    name: String,
}

pub(super) fn run(args: &Use, json: bool, quiet: bool) -> anyhow::Result<Exit> {
    let name = &args.name;
    contexts::change(|all| {
        all.current = match name == LOCAL {
            true => None,
            false => {
                all.get(name)?;
                Some(name.clone())
            }
        };
        Ok(())
    })?;
    let mut output = Output::new(json);
    match json {
        true => output.value(&json!({ "context": name }))?,
        false => output.line(format!("Commands now use the context `{name}`"))?,
    }
    output.finish()?;
    let overriding = ["ELEVO_SERVER", "ELEVO_CONTEXT", "ELEVO_DATA"];
    let set = overriding.iter().find(|it| std::env::var_os(it).is_some());
    if let Some(variable) = set.filter(|_| !quiet && !json) {
        print_note(&format!("{variable} is set and has precedence"));
    }
    Ok(Exit::Done)
}
