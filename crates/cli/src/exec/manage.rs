use clap::Args;
use elevo_api as api;
use reqwest::Method;
use serde_json::json;

use crate::client::{Reach, sandbox_path};
use crate::errors::Exit;
use crate::format;
use crate::service::{self, Call, Table, relative};

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

pub(crate) fn ps(args: &Ps) -> anyhow::Result<Exit> {
    service::run(&args.reach, |call| {
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

/// Send a signal to a command and its child processes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo kill \"$id\" \"$command\"
  elevo kill \"$id\" \"$command\" -s KILL")]
pub(crate) struct Kill {
    /// The sandbox
    sandbox: String,

    /// Id of the command; `elevo ps` lists them
    command: String,

    /// Name or number of the signal
    #[arg(short, long, default_value = "TERM", value_parser = number)]
    signal: i32,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

pub(crate) fn kill(args: &Kill) -> anyhow::Result<Exit> {
    service::run(&args.reach, |call| {
        let (sandbox, command) = (&args.sandbox, &args.command);
        let path = sandbox_path(sandbox, &["process", command, "kill"]);
        let wish = api::Kill {
            signal: Some(args.signal),
        };
        let request = call.client.request(Method::POST, &path).json(&wish);
        call.wait(call.client.done(request))?;
        match call.output.is_json() {
            true => {
                let shape = json!({ "commandId": command, "signal": args.signal });
                call.output.value(&shape)?;
            }
            false => call
                .output
                .line(format!("Sent signal {} to {command}", args.signal))?,
        }
        Ok(Exit::Done)
    })
}

/// Signals that have a name, with the numbers of Linux on x86-64 and arm64.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];

fn number(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = SIGNALS.iter().find(|(known, _)| *known == name);
    let number = named.map(|(_, number)| *number).or(text.parse().ok());
    let number = number.filter(|number| (1..=31).contains(number));
    number.ok_or_else(|| {
        let names: Vec<_> = SIGNALS.iter().map(|(name, _)| *name).collect();
        format!(
            "a signal is a number from 1 to 31, or one of {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, expected) in [("9", 9), ("KILL", 9), ("sigint", 2), ("Term", 15)] {
            assert_eq!(number(text), Ok(expected), "{text}");
        }
        for text in ["0", "32", "-1", "SIG", "NOTHING", ""] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
