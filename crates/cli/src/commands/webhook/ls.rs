use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::webhooks::webhooks;
use crate::output::format::{count, short_id};
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List webhooks
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo webhook ls
  elevo webhook ls -l                    with complete ids and all kinds of events
  elevo webhook ls --json | jq -r .url")]
pub(super) struct Ls {
    /// Show complete ids and all kinds of events
    #[arg(short, long)]
    long: bool,
}

pub(super) fn run(call: &mut Call, args: &Ls) -> anyhow::Result<()> {
    let all = call.wait(webhooks(&call.client))?;
    let mut table = Table::wide(&["ID", "SIGNED", "CREATED", "KINDS", "URL"], args.long);
    for webhook in &all {
        if call.output.is_json() {
            call.output.value(webhook)?;
            continue;
        }
        let id = match args.long {
            true => webhook.id.clone(),
            false => short_id(&webhook.id),
        };
        table.row([
            id,
            if webhook.signed { "yes" } else { "no" }.into(),
            relative(&webhook.created_at),
            kinds(&webhook.kinds, args.long),
            webhook.url.clone(),
        ]);
    }
    match (call.output.is_json(), all.is_empty()) {
        (true, _) => {}
        (false, true) => call.note("there are no webhooks; `elevo webhook create URL` creates one"),
        (false, false) => table.print(&mut call.output)?,
    }
    Ok(())
}

/// The kinds of events of a webhook: one, `all`, or their number.
fn kinds(kinds: &[String], long: bool) -> String {
    let has = |kind: &&str| kinds.iter().any(|it| it == kind);
    match kinds {
        _ if api::EVENT_KINDS.iter().all(has) => "all".into(),
        [one] => one.clone(),
        _ if long => kinds.join(","),
        _ => count(kinds.len() as u64, "kind", "kinds"),
    }
}
