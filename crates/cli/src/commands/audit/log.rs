use clap::Args;
use elevo_audit::read;
use serde_json::{Map, Value};

use crate::output::format::harmless;
use crate::output::notes::print_note;
use crate::output::{FAINT, Output, STRONG};

/// Print records, oldest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo audit log                               the last hundred
  elevo audit log --event auth.failed -n 20
  elevo audit log --sandbox sbx-… --json | jq -r .details.command
  elevo audit log --after 12345 --json          all newer records")]
pub(super) struct Log {
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

pub(super) fn run(
    output: &mut Output,
    directory: &std::path::Path,
    wish: &Log,
) -> anyhow::Result<()> {
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
        print_note("there are no such records");
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
    let status: u16 = status.parse().unwrap_or_default();
    // Removes fields that are rarely needed; only the JSON has them.
    let _ = ["level", "request_id", "tenant", "duration_ms"].map(&mut text);
    let details = record.remove("details");
    let mut rest: Vec<String> = record
        .iter()
        .map(|(name, value)| format!("{name}={}", plain(value)))
        .collect();
    let mut is_dry_run = false;
    if let Some(Value::Object(mut details)) = details {
        is_dry_run = details.remove("dry_run") == Some(true.into());
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
    let outcome = outcome(&event, status, is_dry_run);
    line.extend(output.styled(STRONG, harmless(&outcome).as_bytes()));
    let more = format!(" {user} {}", rest.join(" "));
    line.extend(harmless(&more).as_bytes());
    output.line(line)?;
    Ok(())
}

/// Returns the event of a request that was carried out. For any other request,
/// returns the action and its outcome: `project.create refused(409)`.
fn outcome(event: &str, status: u16, is_dry_run: bool) -> String {
    // These events already name the outcome.
    let is_outcome = event.starts_with("auth.") || event.starts_with("access.");
    match status {
        LEFT => format!("{} unfinished({status})", action(event)),
        400..500 if !is_outcome => format!("{} refused({status})", action(event)),
        500.. => format!("{} failed({status})", action(event)),
        _ if is_dry_run => format!("{} dry-run", action(event)),
        _ => event.to_owned(),
    }
}

/// The status of a request whose client disconnected before the response.
const LEFT: u16 = 499;

/// The action of an event: `project.create` of `project.created`.
fn action(event: &str) -> String {
    let (noun, verb) = event.rsplit_once('.').unwrap_or(("", event));
    let verb = match verb {
        "applied" => "apply",
        "stopped" => "stop",
        "tagged" => "tag",
        "untagged" => "untag",
        "added" | "killed" | "ended" | "forked" | "opened" | "reverted" | "imported"
        | "exported" | "connected" | "collected" | "replayed" | "started" | "extended"
        | "refreshed" => verb.trim_end_matches("ed"),
        verb if verb.ends_with("ed") => verb.trim_end_matches('d'),
        verb => verb,
    };
    match noun {
        "" => verb.to_owned(),
        noun => format!("{noun}.{verb}"),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if !text.contains([' ', '\n', '"']) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_failed_does_not_have_the_name_of_a_success() {
        assert_eq!(outcome("project.created", 201, false), "project.created");
        assert_eq!(
            outcome("project.created", 409, false),
            "project.create refused(409)"
        );
        assert_eq!(
            outcome("command.killed", 500, false),
            "command.kill failed(500)"
        );
        assert_eq!(
            outcome("workspace.merged", 200, true),
            "workspace.merge dry-run"
        );
        assert_eq!(outcome("auth.failed", 401, false), "auth.failed");
        assert_eq!(outcome("server.started", 0, false), "server.started");
    }

    #[test]
    fn events_name_their_action() {
        for (event, expected) in [
            ("key.revoked", "key.revoke"),
            ("project.restored", "project.restore"),
            ("project.tagged", "project.tag"),
            ("sandbox.extended", "sandbox.extend"),
            ("template.removed", "template.remove"),
            ("command.run", "command.run"),
        ] {
            assert_eq!(action(event), expected);
        }
    }
}
