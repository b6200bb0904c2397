use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::SNAPSHOTS;
use crate::output::format::{first_line, short_id};
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List the snapshots that were taken, imported or named, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo snapshot ls
  elevo snapshot ls --workspace ws-…
  elevo snapshot ls --json | jq -r .id")]
pub(super) struct Ls {
    /// Only snapshots of this workspace, by id, name or unique prefix of its id
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,

    /// Only snapshots whose name begins with this
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
}

pub(super) fn run(call: &mut Call, args: Ls) -> anyhow::Result<()> {
    let mut query = vec![("limit", "100".to_owned())];
    if let Some(workspace) = &args.workspace {
        query.push(("workspace", find(call, Noun::Workspace, workspace)?));
    }
    query.extend(args.name.map(|name| ("name_prefix", name)));
    let titles = ["ID", "NAME", "WORKSPACE", "CREATED", "MESSAGE"];
    let mut table = Table::new(&titles);
    let (mut cursor, mut count) = (None::<String>, 0);
    loop {
        let request = call.client.request(Method::GET, &SNAPSHOTS).query(&query);
        let request = match cursor.take() {
            Some(cursor) => request.query(&[("cursor", cursor)]),
            None => request,
        };
        let page: api::SnapshotPage = call.wait(call.client.json(request))?;
        count += page.items.len();
        for snapshot in &page.items {
            if call.output.is_json() {
                call.output.value(snapshot)?;
                continue;
            }
            let workspace = snapshot.workspace.as_deref().unwrap_or_default();
            table.row([
                snapshot.id.clone(),
                snapshot.name.clone().unwrap_or_default(),
                short_id(workspace),
                relative(&snapshot.created_at),
                first_line(&snapshot.message).into_owned(),
            ]);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    match (call.output.is_json(), count) {
        (true, _) => {}
        (false, 0) => call.note("there are no snapshots; `elevo sandbox snapshot ID` takes one"),
        (false, _) => table.print(&mut call.output)?,
    }
    Ok(())
}
