//! `elevo events`: lists and follows events of sandboxes and projects.

use std::time::Duration;

use clap::Args;
use elevo_api as api;
use reqwest::Method;
use reqwest::header::ACCEPT;

use crate::client::event_text::EventTexts;
use crate::client::names::{Noun, find_known};
use crate::client::{self, Call, ClientError, Events as Stream, Reach, decode};
use crate::errors::Exit;
use crate::output::format::harmless;
use crate::output::{FAINT, STRONG};

/// List events of sandboxes and projects, or follow them.
#[derive(Debug, Args)]
#[command(after_help = "\
Events are numbered and kept for a week. With --follow they are printed as they
happen, across restarts of the server, without a loss. A note
reports events that were deleted before they could be printed.

Examples:
  elevo events
  elevo events --kind sandbox.error,review.opened --follow
  elevo events --after 4711 --json | jq -r .kind
  elevo events --project site
  elevo events --sandbox \"$id\"")]
pub(crate) struct Events {
    /// Only these kinds, separated by commas
    #[arg(long, value_name = "KINDS")]
    kind: Option<String>,

    /// Only events of this sandbox
    #[arg(long, value_name = "SANDBOX", conflicts_with = "project")]
    sandbox: Option<String>,

    /// Only events of this project
    #[arg(long, value_name = "NAME")]
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
        let filters = filters(call, args)?;
        let mut texts = EventTexts::new(call);
        match args.follow {
            false => drop(list(
                call,
                &mut texts,
                &filters,
                args.after.map(|after| after.to_string()),
            )?),
            true => follow(call, &mut texts, &filters, args.after)?,
        }
        Ok(Exit::Done)
    })
}

/// The filters of a request for events.
type Filters = Vec<(&'static str, String)>;

/// Resolves names in the filters. An unknown name is an error, because the
/// server would return no events for it.
fn filters(call: &Call, args: &Events) -> anyhow::Result<Filters> {
    let mut query = Vec::new();
    query.extend(args.kind.clone().map(|kinds| ("kinds", kinds)));
    if let Some(sandbox) = &args.sandbox {
        query.push(("sandbox", find_known(call, Noun::Sandbox, sandbox)?));
    }
    if let Some(project) = &args.project {
        query.push(("project", find_known(call, Noun::Project, project)?));
    }
    Ok(query)
}

/// Prints all events after `after`. Returns the number of the last.
fn list(
    call: &mut Call,
    texts: &mut EventTexts,
    filters: &Filters,
    mut after: Option<String>,
) -> anyhow::Result<String> {
    loop {
        let mut query = filters.clone();
        query.extend(after.take().map(|after| ("cursor", after)));
        query.push(("limit", PAGE.to_string()));
        let request = call.client.request(Method::GET, &EVENTS).query(&query);
        let page: api::EventPage = call.wait(call.client.json(request))?;
        if let Some(gap) = page.gap {
            report(call, gap);
        }
        for event in &page.items {
            show(call, texts, event)?;
        }
        if page.items.len() < PAGE as usize {
            return Ok(page.next);
        }
        after = Some(page.next);
    }
}

fn follow(
    call: &mut Call,
    texts: &mut EventTexts,
    filters: &Filters,
    after: Option<u64>,
) -> anyhow::Result<()> {
    let mut after = match after {
        Some(after) => Some(list(call, texts, filters, Some(after.to_string()))?),
        None => None,
    };
    call.output.finish()?;
    let mut was_there = false;
    loop {
        let mut query = filters.clone();
        query.extend(after.clone().map(|after| ("cursor", after)));
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
            // An item without a number is a gap, or the last item: `stopping` or
            // `error`. After an error, the next request gets it as its response.
            if event.id.is_none() {
                if let Ok(gap) = decode(&event) {
                    report(call, gap);
                }
                continue;
            }
            let event: api::Event = decode(&event)?;
            after = Some(event.id.to_string());
            show(call, texts, &event)?;
            // A program that reads the output needs each event at once.
            call.output.finish()?;
        }
        std::thread::sleep(AGAIN);
    }
}

/// Reports that events were deleted before they could be printed.
fn report(call: &Call, gap: api::EventGap) {
    let message = "events were deleted and are not shown; all are there from number";
    call.note(&format!("{message} {} on", gap.oldest));
}

/// Whether the server cannot be reached now, or is stopping.
fn is_away(error: &ClientError) -> bool {
    matches!(error, ClientError::Unreachable { .. }) || error.is_worth_repeating()
}

fn show(call: &mut Call, texts: &mut EventTexts, event: &api::Event) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(event)?);
    }
    let about = texts.of(call, event);
    let time = event.timestamp.parse::<jiff::Timestamp>();
    let time = time.map_or_else(|_| event.timestamp.clone(), brief);
    let number = format!("{} {time} ", event.id);
    let mut line = call.output.styled(FAINT, harmless(&number).as_bytes());
    line.extend(call.output.styled(STRONG, harmless(&event.kind).as_bytes()));
    line.extend(format!(" {about}").trim_end().as_bytes());
    Ok(call.output.line(line)?)
}

/// `11-17 13:36`, in the user's time zone.
fn brief(time: jiff::Timestamp) -> String {
    let time = time.to_zoned(jiff::tz::TimeZone::system());
    time.strftime("%m-%d %H:%M").to_string()
}
