//! The commands of `elevo audit`, which read the audit log of the server on this
//! machine.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, Subcommand};
use elevo_audit::{Head, Report, read, verify};
use serde_json::{Map, Value, json};

use crate::bar::{self, Watch};
use crate::data::Data;
use crate::errors::{Exit, Problem};
use crate::format::{count, harmless, path_text};
use crate::output::{FAINT, Output, REMOVED, STRONG};
use crate::service::note;

/// Read and verify the audit log of the server on this machine.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
The log is in the data directory, in `audit`. Each record is chained to all
before it by a hash, so `verify` finds a record that was changed, deleted, added
or moved. It finds deleted records at the end only if you saved a head
elsewhere: the server logs one every ten minutes, and `verify` prints the
newest.

Examples:
  elevo audit log --event command.run
  elevo audit verify
  elevo audit verify --expect \"$head\"          compare with a saved head"
)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: AuditCommand,

    /// The data directory of the server
    #[arg(
        long,
        value_name = "DIR",
        env = "ELEVO_DATA",
        hide_env_values = true,
        global = true
    )]
    data: Option<PathBuf>,

    /// Show no progress
    #[arg(long, short, global = true)]
    quiet: bool,

    /// Print JSON, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    Verify(Verify),
    Log(Log),
}

/// Read the whole log and report every change made to it.
#[derive(Debug, Args)]
#[command(after_help = "\
The server may be running. Exit code 6 means that the log was changed.

Examples:
  elevo audit verify
  head=$(elevo audit verify --json | jq -r .head)
  elevo audit verify --expect \"$head\"")]
struct Verify {
    /// A head that you saved before, as NUMBER:HASH; can be repeated
    #[arg(long, value_name = "HEAD")]
    expect: Vec<Head>,
}

/// Print records, oldest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo audit log                               the last hundred
  elevo audit log --event auth.failed -n 20
  elevo audit log --sandbox sbx-… --json | jq -r .details.command
  elevo audit log --after 12345 --json          all newer records")]
struct Log {
    /// Only this event, or all with a prefix that ends in a dot: `command.`
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,

    /// Only records about this sandbox
    #[arg(long, value_name = "ID")]
    sandbox: Option<String>,

    /// Only requests of this key or agent
    #[arg(long, value_name = "ID")]
    by: Option<String>,

    /// All records after this number, instead of the newest
    #[arg(long, value_name = "NUMBER", conflicts_with = "limit")]
    after: Option<u64>,

    /// Number of records, counted from the newest
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

pub(crate) fn run(args: &Audit) -> anyhow::Result<Exit> {
    let directory = Data::new(args.data.clone()).path().join("audit");
    if !directory.is_dir() {
        return Err(Problem::NoAuditLog(directory).into());
    }
    let mut output = Output::new(args.json);
    let code = match &args.command {
        AuditCommand::Verify(wish) => {
            let done = AtomicU64::new(0);
            let watch = Watch {
                doing: "verifying",
                things: "records",
                total: None,
                counts: || (done.load(Ordering::Relaxed), 0),
            };
            let found = bar::watch(args.quiet || args.json, watch, || {
                verify(&directory, &wish.expect, |records| {
                    done.store(records, Ordering::Relaxed);
                })
            })?;
            print(&mut output, &found)?
        }
        AuditCommand::Log(wish) => {
            log(&mut output, &directory, wish)?;
            Exit::Done
        }
    };
    output.finish()?;
    Ok(code)
}

fn print(output: &mut Output, found: &Report) -> anyhow::Result<Exit> {
    let is_whole = found.problems.is_empty();
    let head = found.head.map(|head| head.to_string());
    if output.is_json() {
        output.value(&json!({
            "whole": is_whole,
            "records": found.records,
            "first": found.first,
            "head": head,
            "problems": found.problems,
            "unfinishedBytes": found.unfinished,
            "setAside": found.aside,
        }))?;
    } else {
        for problem in &found.problems {
            let file = path_text(problem.file.as_os_str().as_encoded_bytes());
            let what = output.styled(REMOVED, &problem.what);
            let mut line = match problem.line {
                0 => format!("{file}: ").into_bytes(),
                number => format!("{file}, line {number}: ").into_bytes(),
            };
            line.extend(what);
            output.line(line)?;
        }
        for file in &found.aside {
            let file = path_text(file.as_os_str().as_encoded_bytes());
            output.line(format!(
                "{file}: set aside when the server started, because it does not continue the records before it"
            ))?;
        }
        let records = count(found.records, "record", "records");
        let since = match found.first {
            Some(first) if first > 1 => format!(" from number {first} on"),
            _ => String::new(),
        };
        let state = match is_whole {
            true => "all unchanged",
            false => "not all unchanged",
        };
        output.line(format!("{records}{since}, {state}"))?;
        if let Some(head) = head {
            output.line(format!("head {head}"))?;
        }
    }
    Ok(match is_whole {
        true => Exit::Done,
        false => Exit::Damaged,
    })
}

fn log(output: &mut Output, directory: &std::path::Path, wish: &Log) -> anyhow::Result<()> {
    let mut last = std::collections::VecDeque::new();
    let mut failed = None;
    read(
        directory,
        wish.after.unwrap_or_default(),
        |number, record| {
            if !is_wanted(wish, &record) {
                return true;
            }
            if wish.after.is_some() {
                failed = show(output, number, record).err();
                return failed.is_none();
            }
            if last.len() >= wish.limit {
                last.pop_front();
            }
            last.push_back((number, record));
            true
        },
    )?;
    if let Some(error) = failed {
        return Err(error);
    }
    if last.is_empty() && wish.after.is_none() && !output.is_json() {
        note("there are no such records");
    }
    for (number, record) in last {
        show(output, number, record)?;
    }
    Ok(())
}

fn is_wanted(wish: &Log, record: &Map<String, Value>) -> bool {
    let is = |name: &str, wanted: &Option<String>| {
        wanted
            .as_ref()
            .is_none_or(|wanted| record.get(name).and_then(Value::as_str) == Some(wanted))
    };
    let event = record.get("event").and_then(Value::as_str);
    let event = event.unwrap_or_default();
    let is_event = |wanted: &String| {
        event == wanted || (wanted.ends_with('.') && event.starts_with(wanted.as_str()))
    };
    wish.event.as_ref().is_none_or(is_event)
        && is("sandbox_id", &wish.sandbox)
        && (is("user", &wish.by) || is("agent", &wish.by))
}

fn show(output: &mut Output, number: u64, mut record: Map<String, Value>) -> anyhow::Result<()> {
    if output.is_json() {
        record.insert("n".into(), number.into());
        output.value(&record)?;
        return Ok(());
    }
    let mut text = |name: &str| match record.remove(name) {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => "-".into(),
        Some(other) => other.to_string(),
    };
    let (time, event, user, status) = (
        text("timestamp"),
        text("event"),
        text("user"),
        text("status"),
    );
    // Rarely needed fields are only in the JSON.
    let _ = ["level", "request_id", "tenant", "duration_ms"].map(&mut text);
    let details = record.remove("details");
    let mut rest: Vec<String> = record
        .iter()
        .map(|(name, value)| format!("{name}={}", plain(value)))
        .collect();
    if let Some(Value::Object(mut details)) = details {
        // The event implies the route, except when access was denied.
        if !event.starts_with("auth.") && !event.starts_with("access.") {
            details.remove("route");
        }
        rest.extend(
            details
                .iter()
                .map(|(name, value)| format!("{name}={}", plain(value))),
        );
    }
    let mut line = output.styled(FAINT, format!("{number} {time} "));
    line.extend(output.styled(STRONG, harmless(&event).as_bytes()));
    let more = format!(" {user} {status} {}", rest.join(" "));
    line.extend(harmless(&more).as_bytes());
    output.line(line)?;
    Ok(())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if !text.contains([' ', '\n', '"']) => text.clone(),
        other => other.to_string(),
    }
}
