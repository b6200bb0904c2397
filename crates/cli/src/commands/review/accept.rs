use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::review_path;
use crate::client::review::{decision, send_decision};
use crate::client::review_sides::Sides;
use crate::errors::{Exit, ProjectProblem};
use crate::input::{editor, file};

/// Maximum bytes of a file that the server accepts.
const LARGEST: u64 = 64 << 20;

/// The version of the file that a decision takes.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Take {
    /// The project's side
    Project,
    /// The workspace's side
    Workspace,
    /// The suggestion that `show` prints
    Suggested,
}

impl From<Take> for api::Take {
    fn from(take: Take) -> Self {
        match take {
            Take::Project => Self::Project,
            Take::Workspace => Self::Workspace,
            Take::Suggested => Self::Suggested,
        }
    }
}

/// Accept a change: land one side, the suggestion or an edited file.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("decision").required(true),
    after_help = "\
--edit opens the file in $VISUAL or $EDITOR, with both sides between markers
where they conflict; it is sent if no marker is left. The exit code is 8 if the
project has changed and the decision conflicts again; decide the new conflict
then.

Examples:
  elevo review accept rev-… --take suggested
  elevo review accept rev-… --take workspace -m \"the agent is right\"
  elevo review accept rev-… --edit
  elevo review accept rev-… --file merged.txt"
)]
pub(super) struct Accept {
    /// The review: its id or a unique prefix of it
    #[arg(value_name = "REVIEW")]
    id: String,

    /// The version to take
    #[arg(long, value_name = "SIDE", group = "decision")]
    take: Option<Take>,

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

pub(super) fn run(call: &mut Call, args: Accept) -> anyhow::Result<Exit> {
    let id = find(call, Noun::Review, &args.id)?;
    if let Some(take) = args.take {
        return send_decision(call, &id, decision(take.into(), args.message, None));
    }
    if args.remove {
        let removed = decision(api::Take::Edited, args.message, None);
        return send_decision(call, &id, removed);
    }
    let (review, sides) = call.watch("reading", async {
        let review: api::Review = call.client.get(&review_path(&id, &[])).await?;
        let sides = Sides::of(&call.client, &review).await?;
        Ok::<_, crate::client::ClientError>((review, sides))
    })?;
    match args.file {
        Some(path) => {
            let content = file::read_bytes(&path, LARGEST)?;
            if sides.leaves_markers(&content) {
                return Err(still_marked(path));
            }
            let edited = decision(api::Take::Edited, args.message, Some(content));
            send_decision(call, &id, edited)
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
        decision(api::Take::Edited, message, Some(content)),
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
