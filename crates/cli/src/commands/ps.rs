use clap::Args;
use elevo_api as api;

use crate::client::paths::sandbox_path;
use crate::client::{self, Call, Reach};
use crate::errors::Exit;
use crate::output::format;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List the commands of a sandbox: all that are running, and the last that ended.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo ps \"$id\"
  elevo ps \"$id\" --json | jq -r 'select(.running) | .commandId'")]
pub(crate) struct Ps {
    /// The sandbox
    sandbox: String,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

pub(crate) fn run(args: &Ps) -> anyhow::Result<Exit> {
    client::run_on_server(&args.reach, |call| {
        let path = sandbox_path(&args.sandbox, &["process"]);
        let mut list: api::CommandList = call.wait(call.client.get(&path))?;
        list.items.sort_by_key(|command| command.started_at);
        print(call, &list.items)?;
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
        let started = jiff::Timestamp::from_millisecond(command.started_at);
        table.row([
            command.command_id.clone(),
            state,
            started.map_or("-".into(), |time| relative(&time.to_string())),
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
