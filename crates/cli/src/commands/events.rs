//! `elevo events`: lists and follows events of sandboxes and projects.

use std::time::Duration;

use clap::Args;
use elevo_api as api;
use reqwest::Method;
use reqwest::header::ACCEPT;
use serde_json::Value;

use crate::client::{self, Call, ClientError, Events as Stream, Reach, decode};
use crate::errors::Exit;
use crate::output::format::harmless;
use crate::output::{FAINT, Output, STRONG};

/// List events of sandboxes and projects, or follow them.
#[derive(Debug, Args)]
#[command(after_help = "\
Events are numbered and kept for a week. With --follow they are printed as they
happen, across restarts of the server, without gaps.

Examples:
  elevo events
  elevo events --kind sandbox.error,review.opened --follow
  elevo events --after 4711 --json | jq -r .event
  elevo events --sandbox \"$id\"")]
pub(crate) struct Events {
    /// Only these kinds, separated by commas
    #[arg(long, value_name = "KINDS")]
    kind: Option<String>,

    /// Only events of this sandbox
    #[arg(long, value_name = "ID", conflicts_with = "project")]
    sandbox: Option<String>,

    /// Only events of this project
    #[arg(long, value_name = "ID")]
    project: Option<String>,

    /// Only events after this number
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,

    /// Wait for new events
    #[arg(long, short)]
    follow: bool,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

const EVENTS: [&str; 3] = ["api", "v1", "events"];

/// Events per request.
const PAGE: u32 = 1000;

/// Pause before reconnecting to the server.
const AGAIN: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &Events) -> anyhow::Result<Exit> {
    client::run_on_server(&args.reach, |call| {
        match args.follow {
            false => drop(list(call, args, args.after.unwrap_or_default())?),
            true => follow(call, args)?,
        }
        Ok(Exit::Done)
    })
}

fn wish(args: &Events) -> Vec<(&'static str, String)> {
    let mut query = Vec::new();
    let mut put = |name, value: &Option<String>| {
        if let Some(value) = value {
            query.push((name, value.clone()));
        }
    };
    put("kinds", &args.kind);
    put("sandbox", &args.sandbox);
    put("project", &args.project);
    query
}

/// Prints all events after `after`. Returns the number of the last.
fn list(call: &mut Call, args: &Events, mut after: u64) -> anyhow::Result<u64> {
    loop {
        let mut query = wish(args);
        query.push(("after", after.to_string()));
        query.push(("limit", PAGE.to_string()));
        let request = call.client.request(Method::GET, &EVENTS).query(&query);
        let page: api::EventPage = call.wait(call.client.json(request))?;
        for event in &page.items {
            show(&mut call.output, event)?;
        }
        after = page.last;
        if page.items.len() < PAGE as usize {
            return Ok(after);
        }
    }
}

fn follow(call: &mut Call, args: &Events) -> anyhow::Result<()> {
    let mut after = match args.after {
        Some(after) => Some(list(call, args, after)?),
        None => None,
    };
    call.output.finish()?;
    let mut was_there = false;
    loop {
        let mut query = wish(args);
        if let Some(after) = after {
            query.push(("after", after.to_string()));
        }
        let request = call.client.request(Method::GET, &EVENTS).query(&query);
        let request = request.header(ACCEPT, "text/event-stream");
        let mut stream = match call.wait(call.client.send(request)) {
            Ok(answer) => Stream::new(&call.client, answer),
            // A server that responded before is restarting: retry.
            Err(error) if was_there && is_away(&error) => {
                std::thread::sleep(AGAIN);
                call.client.look_again();
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        was_there = true;
        // The stream ends with the connection, or after an hour; the next one
        // continues after the last event.
        while let Ok(Some(event)) = call.wait(stream.next()) {
            // A server that is stopping sends an event without a number.
            if event.id.is_none() {
                continue;
            }
            let event: api::Event = decode(&event)?;
            after = Some(event.id);
            show(&mut call.output, &event)?;
            // A program that reads the output needs each event at once.
            call.output.finish()?;
        }
        std::thread::sleep(AGAIN);
    }
}

/// Whether the server cannot be reached now, or is stopping.
fn is_away(error: &ClientError) -> bool {
    matches!(error, ClientError::Unreachable { .. }) || error.is_worth_repeating()
}

pub(crate) fn show(output: &mut Output, event: &api::Event) -> anyhow::Result<()> {
    if output.is_json() {
        output.value(event)?;
        return Ok(());
    }
    let text = |name: &str| event.data.get(name).and_then(Value::as_str);
    let about = text("sandboxId").or(text("projectId")).unwrap_or_default();
    let more = text("name").or(text("reason")).unwrap_or_default();
    let mut line = output.styled(FAINT, format!("{} {} ", event.id, event.timestamp));
    line.extend(output.styled(STRONG, harmless(&event.event).as_bytes()));
    line.extend(harmless(&format!(" {about} {more}")).trim_end().as_bytes());
    output.line(line)?;
    Ok(())
}
