use std::time::Duration;

use clap::Args;
use elevo_api as api;
use elevo_api::WatchKind;
use reqwest::header::ACCEPT;

use crate::client::files::find_writable;
use crate::client::{Call, ClientError, Events, decode};
use crate::options::place::FilePlace;
use crate::output::{ADDED, REMOVED, STRONG, file_info};

/// Print changes of files as they happen
#[derive(Debug, Args)]
#[command(after_help = "\
Prints `created`, `changed` or `deleted` and the path, for all files below the
directory. The command continues after a restart of the server; a note reports
that changes may be missing. With --json it prints the events of the server: the
first is `watching`, and files that are listed after it miss no change.

Examples:
  elevo files watch \"$id\"
  elevo files watch \"$id:src\"
  elevo files watch ws-6smi --json | jq -r .path")]
pub(super) struct Watch {
    /// The directory; by default the workspace
    #[arg(value_name = "PLACE[:PATH]")]
    place: FilePlace,
}

/// Pause before reconnecting to the server.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) fn run(call: &mut Call, args: &Watch) -> anyhow::Result<()> {
    let files = find_writable(call, &args.place)?;
    let mut was_there = false;
    loop {
        let request = files.watch(call, &args.place.path);
        let request = request.header(ACCEPT, "text/event-stream");
        let mut stream = match call.wait(call.client.send(request)) {
            Ok(answer) => Events::new(&call.client, answer),
            // A server that responded before is restarting: retry.
            Err(error) if was_there && is_away(&error) => {
                std::thread::sleep(AGAIN);
                call.client.look_again();
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        while let Ok(Some(event)) = call.wait(stream.next()) {
            // The last event, `stopping` or `error`, has no number. After an
            // error, the next request gets it as its response.
            if event.id.is_some() {
                show(call, &decode(&event)?, was_there)?;
                was_there = true;
            }
        }
        std::thread::sleep(AGAIN);
    }
}

/// Whether the server cannot be reached now, or is stopping.
fn is_away(error: &ClientError) -> bool {
    matches!(error, ClientError::Unreachable { .. }) || error.is_worth_repeating()
}

fn show(call: &mut Call, event: &api::WatchEvent, was_there: bool) -> anyhow::Result<()> {
    if call.output.is_json() {
        call.output.value(event)?;
        // A program that reads the output needs each event at once.
        return Ok(call.output.finish()?);
    }
    let (word, style) = match event.kind {
        WatchKind::Created => ("created", ADDED),
        WatchKind::Changed => ("changed", STRONG),
        WatchKind::Deleted => ("deleted", REMOVED),
        WatchKind::Gap => return missed(call),
        WatchKind::Watching if was_there => return missed(call),
        WatchKind::Watching => return Ok(()),
    };
    let mut line = call.output.styled(style, word);
    line.push(b' ');
    line.extend(file_info::plain(event.path.as_deref().unwrap_or_default()).as_bytes());
    call.output.line(line)?;
    Ok(call.output.finish()?)
}

/// Reports that changes may be missing.
fn missed(call: &Call) -> anyhow::Result<()> {
    call.note("some changes may be missing; list the files again");
    Ok(())
}
