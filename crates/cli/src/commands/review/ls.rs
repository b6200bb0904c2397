use clap::Args;
use elevo_api as api;

use crate::client::merge::conflict_reason;
use crate::client::review::{ProjectNames, review_state};
use crate::client::{Call, pages};
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
    #[arg(long, value_name = "ID")]
    workspace: Option<String>,

    /// List closed reviews too
    #[arg(long)]
    all: bool,
}

const REVIEWS: [&str; 3] = ["api", "v1", "reviews"];

pub(super) fn run(call: &mut Call, args: Ls) -> anyhow::Result<()> {
    let mut query = Vec::new();
    query.extend(args.project.map(|project| ("project", project)));
    query.extend(args.workspace.map(|workspace| ("workspace", workspace)));
    if !args.all {
        query.push(("state", "open".into()));
    }
    let mut table = Table::new(&["ID", "PROJECT", "PATH", "STATE", "OPENED", "WHY"]);
    let mut names = ProjectNames::default();
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
                review_state(review.state).into(),
                relative(&review.created_at),
                conflict_reason(&review.conflict.kind),
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
