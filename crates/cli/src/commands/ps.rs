use clap::Args;
use elevo_api as api;

use crate::client::names::{Noun, find};
use crate::client::pages::items;
use crate::client::paths::sandbox_path;
use crate::client::sandboxes::print_sandboxes;
use crate::client::{self, Call, Reach};
use crate::errors::Exit;
use crate::output::format;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List the commands of a sandbox, or the sandboxes.
#[derive(Debug, Args)]
#[command(after_help = "\
With a sandbox, lists all commands that are running, and the last that ended.
Without one, lists the sandboxes, as `elevo sandbox ls`.

Examples:
  elevo ps
  elevo ps \"$id\"
  elevo ps \"$id\" --json | jq -r 'select(.running) | .commandId'")]
pub(crate) struct Ps {
    /// The sandbox, by id, name or unique prefix of its id
    sandbox: Option<String>,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

pub(crate) fn run(args: &Ps) -> anyhow::Result<Exit> {
    client::run_on_server(&args.reach, |call| {
        let Some(sandbox) = &args.sandbox else {
            print_sandboxes(call, &[], false)?;
            return Ok(Exit::Done);
        };
        let id = find(call, Noun::Sandbox, sandbox)?;
        let path = sandbox_path(&id, &["process"]);
        let commands: Vec<api::CommandInfo> =
            call.wait(items(&call.client, &path, &[], usize::MAX))?;
        print(call, &commands)?;
        Ok(Exit::Done)
    })
}

fn print(call: &mut Call, commands: &[api::CommandInfo]) -> anyhow::Result<()> {
    let mut table = Table::new(&["ID", "STATE", "STARTED", "OUTPUT", "COMMAND"]);
    for command in commands {
        if call.output.is_json() {
            call.output.value(command)?;
            continue;
        }
        let state = match (command.exit_code, command.timed_out) {
            (None, _) => "running".to_owned(),
            (Some(_), true) => "timed out".to_owned(),
            (Some(code), false) => format!("exit {code}"),
        };
        table.row([
            command.command_id.clone(),
            state,
            relative(&command.started_at),
            format::bytes(command.output_size),
            command.command.clone(),
        ]);
    }
    if call.output.is_json() {
        return Ok(());
    }
    match commands.is_empty() {
        true => call.note("there are no commands"),
        false => table.print(&mut call.output)?,
    }
    Ok(())
}
