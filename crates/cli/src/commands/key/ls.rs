use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::AgentNames;
use crate::client::pages::items;
use crate::client::paths::KEYS;
use crate::output::format::short_id;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List keys
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo key ls
  elevo key ls -l                    with complete ids and scopes
  elevo key ls --all                 with the keys that were revoked
  elevo key ls --json | jq -r .name")]
pub(super) struct Ls {
    /// List keys that were revoked or have expired too
    #[arg(long)]
    all: bool,

    /// Show complete ids and scopes
    #[arg(short, long)]
    long: bool,
}

pub(super) fn run(call: &mut Call, args: &Ls) -> anyhow::Result<()> {
    let list: Vec<api::Key> = call.wait(items(&call.client, &KEYS, &[], usize::MAX))?;
    let agents = AgentNames::request(call);
    let mut heading = vec!["ID", "NAME", "AGENT", "STATE", "CREATED"];
    heading.extend(args.long.then_some("SCOPES"));
    let mut table = Table::wide(&heading, args.long);
    for key in list.iter().filter(|key| args.all || is_valid(key)) {
        if call.output.is_json() {
            call.output.value(key)?;
            continue;
        }
        let state = match (&key.revoked_at, &key.expires_at) {
            (Some(revoked), _) => format!("revoked {}", relative(revoked)),
            (None, Some(expires)) if is_past(expires) => format!("expired {}", relative(expires)),
            (None, Some(expires)) => format!("expires {}", relative(expires)),
            (None, None) => "valid".into(),
        };
        let id = match args.long {
            true => key.id.clone(),
            false => short_id(&key.id),
        };
        let mut row = vec![
            id,
            key.name.clone(),
            agents.or_dash(key.agent.as_deref()),
            state,
            relative(&key.created_at),
        ];
        row.extend(args.long.then(|| key.scopes.join(" ")));
        table.row(row);
    }
    match call.output.is_json() {
        true => Ok(()),
        false => table.print(&mut call.output),
    }
}

fn is_valid(key: &api::Key) -> bool {
    key.revoked_at.is_none() && !key.expires_at.as_deref().is_some_and(is_past)
}

fn is_past(time: &str) -> bool {
    let time = time.parse::<jiff::Timestamp>();
    time.is_ok_and(|time| time <= jiff::Timestamp::now())
}
