use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use elevo_audit::{Head, Report, verify};
use serde_json::json;

use crate::errors::Exit;
use crate::output::format::{count, path_text};
use crate::output::progress::{self, Watch};
use crate::output::{Output, REMOVED};

/// Read the whole log and report every change made to it.
#[derive(Debug, Args)]
#[command(after_help = "\
The server may be running. Exit code 6 means that the log was changed.

Examples:
  elevo audit verify
  head=$(elevo audit verify --json | jq -r .head)
  elevo audit verify --expect \"$head\"")]
pub(super) struct Verify {
    /// A head that you saved before, as NUMBER:HASH; can be repeated
    #[arg(long, value_name = "HEAD")]
    expect: Vec<Head>,
}

pub(super) fn run(
    output: &mut Output,
    directory: &std::path::Path,
    args: &Verify,
    quiet: bool,
) -> anyhow::Result<Exit> {
    let done = AtomicU64::new(0);
    let watch = Watch {
        doing: "verifying",
        things: "records",
        total: None,
        counts: || (done.load(Ordering::Relaxed), 0),
    };
    let found = progress::watch(quiet || output.is_json(), watch, || {
        verify(directory, &args.expect, |records| {
            done.store(records, Ordering::Relaxed);
        })
    })?;
    print(output, &found)
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
