use clap::{Args, ValueEnum};
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::output::relative_time::relative;
use crate::output::sandbox::sandbox_state;
use crate::output::table::Table;

/// States to list.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Starting,
    Running,
    Stopping,
    Stopped,
    Error,
}

/// List sandboxes, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox ls
  elevo sandbox ls --state running --name try-
  elevo sandbox ls --json | jq -r .id | xargs elevo sandbox rm")]
pub(super) struct Ls {
    /// Only sandboxes in this state
    #[arg(long)]
    state: Option<State>,

    /// Only sandboxes whose name begins with PREFIX
    #[arg(long, value_name = "PREFIX")]
    name: Option<String>,
}

/// Sandboxes per request.
const PAGE: u32 = 100;

pub(super) fn run(call: &mut Call, args: &Ls) -> anyhow::Result<()> {
    let mut table = Table::new(&["ID", "NAME", "STATE", "TEMPLATE", "CREATED", "EXPIRES"]);
    let (mut page, mut seen) = (1, 0);
    loop {
        let list = call.wait(list(call, args, page))?;
        for sandbox in &list.items {
            match call.output.is_json() {
                true => call.output.value(sandbox)?,
                false => table.row([
                    sandbox.id.clone(),
                    sandbox.name.clone().unwrap_or("-".into()),
                    sandbox_state(sandbox).into(),
                    sandbox.template.clone(),
                    relative(&sandbox.created_at),
                    relative(&sandbox.expires_at),
                ]),
            }
        }
        seen += list.items.len() as u64;
        if list.items.is_empty() || seen >= list.total {
            break;
        }
        page += 1;
    }
    if call.output.is_json() {
        return Ok(());
    }
    if seen == 0 {
        call.note("there are no sandboxes; `elevo sandbox create` creates one");
        return Ok(());
    }
    table.print(&mut call.output)
}

async fn list(call: &Call, args: &Ls, page: u32) -> crate::client::Result<api::SandboxPage> {
    let mut query = vec![("page", page.to_string()), ("limit", PAGE.to_string())];
    if let Some(state) = args.state.and_then(|state| state.to_possible_value()) {
        query.push(("state", state.get_name().to_owned()));
    }
    if let Some(name) = &args.name {
        query.push(("name_prefix", name.clone()));
    }
    let request = call
        .client
        .request(Method::GET, &["api", "v1", "sandboxes"]);
    call.client.json(request.query(&query)).await
}
