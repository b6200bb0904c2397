use clap::Args;
use elevo_api as api;
use reqwest::Method;
use serde_json::json;

use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::client::{self, Reach};
use crate::errors::Exit;

/// Send a signal to a command and its child processes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo kill \"$id\" \"$command\"
  elevo kill \"$id\" \"$command\" -s KILL")]
pub(crate) struct Kill {
    /// The sandbox, by id, name or unique prefix of its id
    sandbox: String,

    /// Id of the command; `elevo ps` lists them
    command: String,

    /// Name or number of the signal
    #[arg(short, long, default_value = "TERM", value_parser = number)]
    signal: i32,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

pub(crate) fn run(args: &Kill) -> anyhow::Result<Exit> {
    client::run_on_server(&args.reach, |call| {
        let (sandbox, command) = (find(call, Noun::Sandbox, &args.sandbox)?, &args.command);
        let path = sandbox_path(&sandbox, &["process", command, "kill"]);
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
