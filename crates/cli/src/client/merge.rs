//! Sends changes to merge into a project, and prints the result.

use anstyle::Style;
use elevo_api as api;
use elevo_core::ErrorCode;
use serde::Serialize;
use serde_json::Value;

use crate::client::call::Call;
use crate::client::error::{ClientError, Result};
use crate::errors::Exit;
use crate::output::format::{self, first_line};
use crate::output::{ADDED, IDENTITY, PLACE, REMOVED, STRONG};

/// Requests a merge and prints its result.
pub(crate) fn merge(
    call: &mut Call,
    path: &[&str],
    wish: &(impl Serialize + Sync),
    doing: &'static str,
) -> anyhow::Result<Exit> {
    let asked = call.watch(doing, call.client.create(path, wish));
    let result: api::MergeResult = landed(call, asked)?;
    print_merge(call, &result)
}

/// Returns the result of a merge. If the request failed, prints the changes that
/// prevented an atomic merge.
pub(crate) fn landed<T>(call: &mut Call, asked: Result<T>) -> anyhow::Result<T> {
    if let Err(error) = &asked {
        print_obstacles(call, error)?;
    }
    Ok(asked?)
}

/// Prints the changes that prevented an atomic merge.
fn print_obstacles(call: &mut Call, error: &ClientError) -> anyhow::Result<()> {
    let ClientError::Refused(body) = error else {
        return Ok(());
    };
    if call.output.is_json() || body.code() != Some(ErrorCode::MergeConflict) {
        return Ok(());
    }
    let list = |name: &str| body.details.get(name).cloned().unwrap_or(Value::Null);
    let conflicts: Vec<api::Conflict> =
        serde_json::from_value(list("conflicts")).unwrap_or_default();
    let refused: Vec<api::FileRefused> =
        serde_json::from_value(list("refused")).unwrap_or_default();
    for conflict in &conflicts {
        print_conflict(call, conflict)?;
    }
    for refused in &refused {
        print_refused(call, refused)?;
    }
    call.output.finish()?;
    Ok(())
}

/// The exit code for the result of a merge.
pub(crate) fn merge_exit(result: &api::MergeResult) -> Exit {
    let held = result.conflict_count > 0 || result.refused_count > 0;
    match held || !result.overruled.is_empty() {
        true => Exit::Held,
        false => Exit::Done,
    }
}

/// Prints the changes that landed, are held and were refused.
pub(crate) fn print_merge(call: &mut Call, result: &api::MergeResult) -> anyhow::Result<Exit> {
    let code = merge_exit(result);
    if call.output.is_json() {
        call.output.value(result)?;
        return Ok(code);
    }
    print_landed(call, result)?;
    if result.conflict_count > 0 {
        let text = match result.dry_run {
            true => "Would be held for review",
            false => "Held for review",
        };
        heading(call, text, result.conflict_count)?;
        for conflict in &result.conflicts {
            print_conflict(call, conflict)?;
        }
        print_rest(call, result.conflicts.len(), result.conflict_count)?;
    }
    if result.refused_count > 0 {
        heading(call, "Refused", result.refused_count)?;
        for refused in &result.refused {
            print_refused(call, refused)?;
        }
        print_rest(call, result.refused.len(), result.refused_count)?;
    }
    if !result.overruled.is_empty() {
        let count = result.overruled.len() as u64;
        heading(call, "Overruled by a higher priority", count)?;
        for path in &result.overruled {
            let path = first_line(path).into_owned();
            call.output.line(format!("  {path}"))?;
        }
    }
    call.output.finish()?;
    print_notes(call, result);
    Ok(code)
}

fn print_landed(call: &mut Call, result: &api::MergeResult) -> anyhow::Result<()> {
    let count = format::count(result.landed_count, "change", "changes");
    let text = match (result.dry_run, result.step) {
        (true, _) => format!("{count} would land"),
        (false, Some(step)) => format!("{count} landed as step {step}, "),
        (false, None) => "Nothing landed".to_owned(),
    };
    let mut line = call.output.styled(STRONG, text);
    if result.step.is_some() {
        let head = format::short_text(&result.head);
        line.extend(call.output.styled(IDENTITY, head));
    }
    call.output.line(line)?;
    for landed in result.landed.iter().take(LANDED) {
        let line = landed_line(call, landed);
        call.output.line(line)?;
    }
    let shown = result.landed.len().min(LANDED);
    print_rest(call, shown, result.landed_count)
}

/// Maximum number of landed changes listed for people.
const LANDED: usize = 100;

fn landed_line(call: &Call, landed: &api::LandedFile) -> Vec<u8> {
    let (letter, style) = change_letter(&landed.kind);
    let mut text = String::new();
    if let Some(from) = &landed.from {
        text += &format!("{} -> ", first_line(from));
    }
    text += &first_line(&landed.path);
    if landed.entries > 1 {
        text += &format!(" ({})", format::count(landed.entries, "entry", "entries"));
    }
    // A change that needed no merge has no label.
    let unmerged = ["take", "renamed", "mode", "none"];
    if !unmerged.contains(&landed.algorithm.as_str()) {
        text += &format!(" (merged: {})", landed.algorithm);
    }
    let letter = call.output.styled(style, letter);
    [b"  ", &letter[..], b"  ", text.as_bytes()].concat()
}

/// The letter and style for the kind of a change.
pub(crate) fn change_letter(kind: &str) -> (&'static str, Style) {
    match kind {
        "added" => ("A", ADDED),
        "removed" => ("D", REMOVED),
        "renamed" => ("R", PLACE),
        "mode" => ("P", PLACE),
        _ => ("M", PLACE),
    }
}

fn heading(call: &mut Call, text: &str, count: u64) -> anyhow::Result<()> {
    let text = format!("{text}: {count}");
    let text = call.output.styled(STRONG, text);
    Ok(call.output.line(text)?)
}

fn print_conflict(call: &mut Call, conflict: &api::Conflict) -> anyhow::Result<()> {
    let letter = call.output.styled(REMOVED, "C");
    let path = first_line(&conflict.path);
    let why = conflict_reason(&conflict.kind);
    let mut line = [b"  ", &letter[..], b"  ", path.as_bytes()].concat();
    if let Some(review) = &conflict.review_id {
        line.extend(b"  ");
        line.extend(call.output.styled(IDENTITY, &*first_line(review)));
    }
    call.output.line(line)?;
    call.output.line(format!("       {why}"))?;
    let suggested = suggested_side(conflict);
    Ok(call.output.line(format!("       suggested: {suggested}"))?)
}

fn print_refused(call: &mut Call, refused: &api::FileRefused) -> anyhow::Result<()> {
    let letter = call.output.styled(REMOVED, "!");
    let path = first_line(&refused.path);
    call.output
        .line([b"  ", &letter[..], b"  ", path.as_bytes()].concat())?;
    let reason = first_line(&refused.reason).into_owned();
    Ok(call.output.line(format!("       {reason}"))?)
}

fn print_rest(call: &mut Call, shown: usize, all: u64) -> anyhow::Result<()> {
    let rest = all.saturating_sub(shown as u64);
    if rest > 0 {
        call.output.line(format!("  … and {rest} more"))?;
    }
    Ok(())
}

/// Prints notes on the result and the command to run next.
fn print_notes(call: &Call, result: &api::MergeResult) {
    if result.same > 0 {
        let same = format::count(result.same, "change was", "changes were");
        call.note(&format!("{same} in the project already"));
    }
    if result.local > 0 {
        let local = format::count(result.local, "change is", "changes are");
        call.note(&format!("{local} in local paths, which are never merged"));
    }
    let mut reviews = result
        .conflicts
        .iter()
        .filter_map(|it| it.review_id.as_ref());
    if let Some(review) = reviews.next().filter(|_| !result.dry_run) {
        call.note(&next_step(&first_line(review), result.may_decide));
    }
}

/// Names the next command that the caller's key may use.
fn next_step(review: &str, may_decide: bool) -> String {
    let show = format!("next: `elevo review show {review}` shows both sides");
    match may_decide {
        true => {
            format!("{show}, `elevo review accept {review} --take suggested` takes the suggestion")
        }
        false => format!(
            "{show}; this key may not decide it: ask a reviewer, or resolve the conflict in the \
             workspace with `elevo ws pull`, an edit and `elevo ws merge`"
        ),
    }
}

/// Describes the version that `--take suggested` takes, with the reason.
pub(crate) fn suggested_side(conflict: &api::Conflict) -> String {
    let reason = first_line(&conflict.reason);
    match conflict.suggestion.as_str() {
        "project" => format!("the project's side ({reason})"),
        "workspace" => format!("the workspace's side ({reason})"),
        // The reason for a merged file has the form `CAUSE: LINES`.
        _ => match reason.split_once(": ") {
            Some((cause, lines)) => format!("{lines} ({cause})"),
            None => format!("a merged file ({reason})"),
        },
    }
}

/// Describes why a change needs a decision.
pub(crate) fn conflict_reason(kind: &str) -> String {
    let words = match kind {
        "content" => "both sides changed the same place",
        "both-added" => "both sides added a file of this name",
        "removed-in-project" => "the project removed it, the workspace changed it",
        "removed-in-workspace" => "the workspace removed it, the project changed it",
        "file-against-directory" => "a file on one side is a directory on the other",
        "kind" => "it has a different kind on each side",
        "renamed" => "both sides moved it, to different paths",
        "protected" => "the policy requires a review of every change to it",
        "too-large" => "it is too large to merge line by line",
        other => return first_line(other).into_owned(),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_only_commands_that_the_key_may_use() {
        assert!(next_step("rev-1", true).contains("accept rev-1 --take suggested"));
        let other = next_step("rev-1", false);
        assert!(!other.contains("review accept") && other.contains("elevo ws pull"));
    }

    #[test]
    fn a_suggestion_names_the_side_of_its_lines() {
        let conflict = |suggestion: &str, reason: &str| {
            let conflict = serde_json::json!({
                "path": "a", "kind": "content", "hunks": [],
                "suggestion": suggestion, "reason": reason,
            });
            suggested_side(&serde_json::from_value(conflict).unwrap())
        };
        assert_eq!(
            conflict("merged", "both changed it: the workspace's lines"),
            "the workspace's lines (both changed it)"
        );
        assert_eq!(
            conflict("project", "it is larger"),
            "the project's side (it is larger)"
        );
    }
}
