use anstyle::Style;
use clap::Args;
use elevo_api as api;
use elevo_merge::{Driver, Merged, Place, Text};

use crate::client::Call;
use crate::client::merge::{conflict_reason, suggested_side};
use crate::client::names::{AgentNames, Noun, find};
use crate::client::paths::review_path;
use crate::client::review::{ProjectNames, review_state};
use crate::client::review_sides::Sides;
use crate::output::conflict::{self, print_line};
use crate::output::format::{self, first_line, harmless};
use crate::output::notes::field;
use crate::output::relative_time::relative;
use crate::output::styled_line::StyledLine;
use crate::output::{FAINT, STRONG, patch};

/// Show both sides of a review, conflict by conflict.
#[derive(Debug, Args)]
#[command(after_help = "\
The project's side is the version in the project, the workspace's side the
version in the workspace, and the base their common ancestor. On a terminal with
at least 80 columns both sides are shown next to each other, otherwise one below
the other. Changed lines are marked with +.

Examples:
  elevo review show rev-…
  elevo review show rev-… --width 160 | less -R
  elevo review show rev-… --json | jq .hunks")]
pub(super) struct Show {
    /// The review: its id or a unique prefix of it
    #[arg(value_name = "REVIEW")]
    id: String,

    /// Number of columns; by default that of the terminal
    #[arg(long, value_name = "N")]
    width: Option<usize>,
}

/// Minimum columns to show two sides next to each other.
const WIDE: usize = 80;

pub(super) fn run(call: &mut Call, args: &Show) -> anyhow::Result<()> {
    let id = find(call, Noun::Review, &args.id)?;
    let review: api::Review = call.wait(call.client.get(&review_path(&id, &[])))?;
    if call.output.is_json() {
        return Ok(call.output.value(&review)?);
    }
    print_about(call, &review)?;
    let sides = call.watch("reading", Sides::of(&call.client, &review))?;
    let columns = args.width.or_else(|| call.output.columns());
    print_places(call, &review, &sides, columns)?;
    call.output.finish()?;
    if review.state == api::ReviewState::Open {
        let id = first_line(&review.id);
        call.note(&match review.may_decide {
            true => format!(
                "next: `elevo review accept {id}` with --take project, workspace or suggested, or \
                 with --edit; `elevo review reject {id}`"
            ),
            false => {
                "this key may not decide the review: it needs the scope `reviews`, and must not \
                      belong to the agent that made the change"
                    .to_owned()
            }
        });
    }
    Ok(())
}

fn print_about(call: &mut Call, review: &api::Review) -> anyhow::Result<()> {
    let conflict = &review.conflict;
    let mut life = format!(
        "{}, opened {}",
        review_state(review.state),
        relative(&review.created_at)
    );
    if let (Some(expires), api::ReviewState::Open) = (&review.expires_at, review.state) {
        life += &format!(", expires {}", relative(expires));
    }
    if let Some(closed) = &review.closed_at {
        life += &format!(", closed {}", relative(closed));
    }
    if let Some(successor) = &review.successor {
        life += &format!(", succeeded by {successor}");
    }
    let by = review.agent.as_deref();
    let by = by.map(|agent| AgentNames::request(call).of(agent));
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let lines = [
        ("review", review.id.clone()),
        ("state", life),
        ("project", ProjectNames::default().of(call, &review.project)),
        ("path", conflict.path.clone()),
        ("moved from", text(&conflict.from)),
        ("agent", by.unwrap_or_default()),
        ("workspace", text(&review.workspace)),
        ("message", text(&review.message)),
        ("why", conflict_reason(&conflict.kind)),
        ("suggested", suggested_side(conflict)),
        ("decided by", decided_by(review)),
        ("taken", taken(review)),
        ("because", text(&review.decision_message)),
    ];
    for (name, value) in lines {
        if !value.is_empty() {
            field(&mut call.output, name, &value)?;
        }
    }
    Ok(())
}

/// The name and id of the decider.
fn decided_by(review: &api::Review) -> String {
    match (&review.closed_by_name, &review.closed_by) {
        (Some(name), Some(id)) => format!("{name} ({id})"),
        (_, id) => id.clone().unwrap_or_default(),
    }
}

/// Describes the version that a decision took.
fn taken(review: &api::Review) -> String {
    match review.take {
        None => String::new(),
        Some(api::Take::Project) => "the project's side".into(),
        Some(api::Take::Workspace) => "the workspace's side".into(),
        Some(api::Take::Suggested) => {
            format!("the suggestion: {}", suggested_side(&review.conflict))
        }
        Some(api::Take::Edited) => "an edited version".into(),
        Some(api::Take::Nothing) => "nothing: the change was rejected".into(),
    }
}

fn print_places(
    call: &mut Call,
    review: &api::Review,
    sides: &Sides,
    columns: Option<usize>,
) -> anyhow::Result<()> {
    let keys = review.conflict.hunks.iter();
    let keys: Vec<_> = keys
        .filter(|hunk| matches!(hunk.place, api::HunkPlace::Key(_)))
        .collect();
    if !keys.is_empty() {
        for (at, hunk) in keys.iter().enumerate() {
            print_key(call, hunk, (at + 1, keys.len()))?;
        }
        return Ok(());
    }
    let merged = sides.versions().map(|versions| Text.merge(&versions));
    match merged {
        Some(Merged::Conflict(conflicted)) => {
            let found = conflicted.hunks.iter();
            let places: Vec<_> = found
                .filter_map(|hunk| match &hunk.place {
                    Place::Lines(lines) => Some(lines.clone()),
                    Place::Key(_) => None,
                })
                .collect();
            let wide = columns.filter(|columns| *columns >= WIDE);
            conflict::print_conflict_place(call, sides, &places, wide, columns)
        }
        _ => print_whole(call, review, sides),
    }
}

/// Prints a conflict at a key of a structured file.
fn print_key(
    call: &mut Call,
    hunk: &api::ConflictHunk,
    (at, all): (usize, usize),
) -> anyhow::Result<()> {
    let api::HunkPlace::Key(key) = &hunk.place else {
        return Ok(());
    };
    call.output.line("")?;
    let heading = format!("{at} of {all}: {}", first_line(key));
    print_line(call, StyledLine::new(STRONG, &heading))?;
    let sides = [
        ("base", &hunk.base),
        ("project", &hunk.project),
        ("workspace", &hunk.workspace),
    ];
    for (name, value) in sides {
        let style = match value == &hunk.base {
            true => Style::new(),
            false => crate::output::ADDED,
        };
        let text = value.as_deref().unwrap_or("(nothing)");
        for (number, line) in harmless(text).lines().enumerate() {
            let name = if number == 0 { name } else { "" };
            let mut whole = StyledLine::new(FAINT, &format!("  {name:<9} "));
            whole.push(style, line);
            print_line(call, whole)?;
        }
    }
    Ok(())
}

/// Prints a conflict that names no places in the file: for each side, a patch
/// or the kind and size of the side.
fn print_whole(call: &mut Call, review: &api::Review, sides: &Sides) -> anyhow::Result<()> {
    let conflict = &review.conflict;
    let pairs = [
        ("the project's side", &conflict.project_version, &sides.ours),
        (
            "the workspace's side",
            &conflict.workspace_version,
            &sides.theirs,
        ),
    ];
    for (name, version, content) in pairs {
        call.output.line("")?;
        let is_same = *version == conflict.base_version;
        let what = match (version, is_same) {
            (None, true) => "nothing, as before".to_owned(),
            (None, false) => "removed".to_owned(),
            (Some(version), true) => format!("{}, as before", described(version)),
            (Some(version), false) => described(version),
        };
        print_line(call, StyledLine::new(STRONG, &format!("{name}: {what}")))?;
        let texts = (text(sides.base.as_deref()), text(content.as_deref()));
        if let ((Some(before), Some(after)), false) = (texts, is_same || version.is_none()) {
            let patch = patch::patch_between(&before, &after);
            patch::print_patch(&mut call.output, patch.as_bytes())?;
        }
    }
    Ok(())
}

fn described(version: &api::Version) -> String {
    let (kind, mode) = (first_line(&version.kind), first_line(&version.mode));
    match version.size {
        Some(size) => format!("{kind} of {}, mode {mode}", format::bytes(size)),
        None => format!("{kind}, mode {mode}"),
    }
}

/// The text of a version; empty if it does not exist, `None` if it is binary.
fn text(content: Option<&[u8]>) -> Option<String> {
    let text = std::str::from_utf8(content.unwrap_or_default()).ok()?;
    (!text.contains('\0')).then(|| text.to_owned())
}
