use std::path::PathBuf;

use clap::{ArgGroup, Args};
use elevo_api as api;

use crate::client::Call;
use crate::client::paths::review_path;
use crate::client::review::{decision, send_decision};
use crate::client::review_sides::Sides;
use crate::errors::{Exit, ProjectProblem};
use crate::input::{editor, file};

/// Maximum bytes of a file that the server accepts.
const LARGEST: u64 = 64 << 20;

/// Decide a review: land one side, the suggestion or an edited file.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("decision").required(true),
    after_help = "\
--edit opens the file in $VISUAL or $EDITOR, with both sides between markers
where they conflict; it is sent if no marker is left. The exit code is 8 if the
project has changed and the decision conflicts again; decide the new conflict
then.

Examples:
  elevo review resolve rev-… --suggested
  elevo review resolve rev-… --theirs -m \"the agent is right\"
  elevo review resolve rev-… --edit
  elevo review resolve rev-… --file merged.txt"
)]
pub(super) struct Resolve {
    /// The review
    id: String,

    /// Keep the project's version
    #[arg(long, group = "decision")]
    ours: bool,

    /// Take the workspace's version
    #[arg(long, group = "decision")]
    theirs: bool,

    /// Take the suggestion that `show` prints
    #[arg(long, group = "decision")]
    suggested: bool,

    /// Edit the file and take the result
    #[arg(long, group = "decision")]
    edit: bool,

    /// Take the content of a file on this machine; - for standard input
    #[arg(long, value_name = "FILE", group = "decision")]
    file: Option<PathBuf>,

    /// Remove the path from the project
    #[arg(long, group = "decision")]
    remove: bool,

    /// Message that explains the decision
    #[arg(
        short,
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    message: String,
}

pub(super) fn run(call: &mut Call, args: Resolve) -> anyhow::Result<Exit> {
    let taken = [
        (args.ours, api::Resolution::Ours),
        (args.theirs, api::Resolution::Theirs),
        (args.suggested, api::Resolution::Suggested),
    ];
    if let Some((_, resolution)) = taken.into_iter().find(|(is_it, _)| *is_it) {
        return send_decision(call, &args.id, decision(resolution, args.message, None));
    }
    if args.remove {
        let removed = decision(api::Resolution::Edited, args.message, None);
        return send_decision(call, &args.id, removed);
    }
    let (review, sides) = call.watch("reading", async {
        let review: api::Review = call.client.get(&review_path(&args.id, &[])).await?;
        let sides = Sides::of(&call.client, &review).await?;
        Ok::<_, crate::client::ClientError>((review, sides))
    })?;
    match args.file {
        Some(path) => {
            let content = file::read_bytes(&path, LARGEST)?;
            if sides.leaves_markers(&content) {
                return Err(still_marked(path));
            }
            let edited = decision(api::Resolution::Edited, args.message, Some(content));
            send_decision(call, &args.id, edited)
        }
        None => edit(call, &review, &sides, args.message),
    }
}

fn edit(
    call: &mut Call,
    review: &api::Review,
    sides: &Sides,
    message: String,
) -> anyhow::Result<Exit> {
    let text = sides.to_edit().ok_or(ProjectProblem::NotEditable)?;
    let edited = editor::edit(&review.conflict.path, &text)?;
    let content = edited.bytes()?;
    if sides.leaves_markers(&content) {
        return Err(still_marked(edited.keep()));
    }
    let sent = send_decision(
        call,
        &review.id,
        decision(api::Resolution::Edited, message, Some(content)),
    );
    // Keep the user's edits.
    if !matches!(sent, Ok(code) if code == Exit::Done) {
        let kept = edited.keep();
        call.note(&format!("your edited text is in {}", kept.display()));
    }
    sent
}

fn still_marked(kept: PathBuf) -> anyhow::Error {
    let why = "there are conflict markers left";
    ProjectProblem::NotSent { why, kept }.into()
}
