use clap::Args;
use elevo_api as api;

use crate::client::merge::conflict_reason;
use crate::client::names::{AgentNames, Noun, find_some};
use crate::client::paths::REVIEWS;
use crate::client::review::{ProjectNames, review_state};
use crate::client::{Call, pages};
use crate::output::format::short_id;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List reviews, oldest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo review ls
  elevo review ls --project site --all
  elevo review ls --json | jq -r .id")]
pub(super) struct Ls {
    /// Only reviews of this project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,

    /// Only reviews of this workspace
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,

    /// List closed reviews too
    #[arg(long)]
    all: bool,

    /// Show complete ids and the reasons
    #[arg(short, long)]
    long: bool,
}

pub(super) fn run(call: &mut Call, args: Ls) -> anyhow::Result<()> {
    let project = find_some(call, Noun::Project, args.project.as_ref())?;
    let workspace = find_some(call, Noun::Workspace, args.workspace.as_ref())?;
    let mut query = Vec::new();
    query.extend(project.map(|project| ("project", project)));
    query.extend(workspace.map(|workspace| ("workspace", workspace)));
    if !args.all {
        query.push(("state", "open".into()));
    }
    let mut heading = vec!["ID", "PROJECT", "AGENT", "STATE", "OPENED", "PATH"];
    heading.extend(args.long.then_some("REASON"));
    let mut table = Table::wide(&heading, args.long);
    let mut names = ProjectNames::default();
    let agents = AgentNames::request(call);
    let found = pages(call, &REVIEWS, &query, |call, items: Vec<api::Review>| {
        for review in &items {
            if call.output.is_json() {
                call.output.value(review)?;
                continue;
            }
            let id = match args.long {
                true => review.id.clone(),
                false => short_id(&review.id),
            };
            let mut row = vec![
                id,
                names.of(call, &review.project),
                agents.or_dash(review.agent.as_deref()),
                review_state(review.state).into(),
                relative(&review.created_at),
                review.conflict.path.clone(),
            ];
            row.extend(args.long.then(|| conflict_reason(&review.conflict.kind)));
            table.row(row);
        }
        Ok(())
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
