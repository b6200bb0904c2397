//! The commands of `elevo review`, which list and decide held changes.

mod decide;
mod hunks;
mod show;
mod sides;

use std::collections::HashMap;

use clap::{Args, Subcommand};
use elevo_api as api;

use crate::client::Reach;
use crate::errors::Exit;
use crate::merging::why;
use crate::project::project_path;
use crate::service::{self, Call, Table, pages, relative};

/// Manage reviews: held changes that wait for a decision.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A merge holds the conflicts that it cannot resolve and lands everything else.
OURS is the project's version, THEIRS the workspace's version, BASE their common
ancestor. A decision is merged into the current project; if it conflicts again,
the review stays open with the new conflict.

Examples:
  elevo review ls --project site
  elevo review show rev-…
  elevo review resolve rev-… --suggested
  elevo review resolve rev-… --edit          in $EDITOR, between markers
  elevo review reject rev-…"
)]
pub(crate) struct Review {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: ReviewCommand,
}

#[derive(Debug, Subcommand)]
enum ReviewCommand {
    Ls(Ls),
    Show(show::Show),
    Resolve(decide::Resolve),
    Reject(decide::Reject),
}

/// List reviews, oldest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo review ls
  elevo review ls --project site --all
  elevo review ls --json | jq -r .id")]
struct Ls {
    /// Only reviews of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,

    /// Only reviews of this workspace
    #[arg(long, value_name = "ID")]
    workspace: Option<String>,

    /// List closed reviews too
    #[arg(long)]
    all: bool,
}

const REVIEWS: [&str; 3] = ["api", "v1", "reviews"];

pub(crate) fn run(review: Review) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    service::run(&review.reach, |call| match review.command {
        ReviewCommand::Ls(args) => ls(call, args).map(done),
        ReviewCommand::Show(args) => show::show(call, &args).map(done),
        ReviewCommand::Resolve(args) => decide::resolve(call, args),
        ReviewCommand::Reject(args) => decide::reject(call, args),
    })
}

fn ls(call: &mut Call, args: Ls) -> anyhow::Result<()> {
    let mut query = Vec::new();
    query.extend(args.project.map(|project| ("project", project)));
    query.extend(args.workspace.map(|workspace| ("workspace", workspace)));
    if !args.all {
        query.push(("state", "open".into()));
    }
    let mut table = Table::new(&["ID", "PROJECT", "PATH", "STATE", "OPENED", "WHY"]);
    let mut names = Names::default();
    let found = pages(call, &REVIEWS, &query, |call, page: api::ReviewPage| {
        for review in &page.items {
            if call.output.is_json() {
                call.output.value(review)?;
                continue;
            }
            table.row([
                review.id.clone(),
                names.of(call, &review.project),
                review.conflict.path.clone(),
                state(review.state).into(),
                relative(&review.created_at),
                why(&review.conflict.kind),
            ]);
        }
        Ok((page.items.len(), page.next))
    })?;
    match (call.output.is_json(), found) {
        (true, _) => Ok(()),
        (false, 0) => {
            call.note("there are no reviews");
            Ok(())
        }
        (false, _) => table.print(&mut call.output),
    }
}

/// The name of a state.
fn state(state: api::ReviewState) -> &'static str {
    match state {
        api::ReviewState::Open => "open",
        api::ReviewState::Resolved => "resolved",
        api::ReviewState::Rejected => "rejected",
        api::ReviewState::Superseded => "superseded",
        api::ReviewState::Expired => "expired",
    }
}

/// Names of projects by id, each requested once.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    /// Returns the name of a project, or its id if the request fails.
    fn of(&mut self, call: &Call, id: &str) -> String {
        if let Some(name) = self.0.get(id) {
            return name.clone();
        }
        let found = call.wait(call.client.get::<api::Project>(&project_path(id, &[])));
        let name = found.map_or_else(|_| id.to_owned(), |project| project.name);
        self.0.insert(id.to_owned(), name.clone());
        name
    }
}

/// The path of a review, or of a resource below it.
fn review_path<'a>(id: &'a str, below: &[&'a str]) -> Vec<&'a str> {
    [&["api", "v1", "reviews", id], below].concat()
}
