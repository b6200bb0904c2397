use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{AgentNames, Noun, find};
use crate::client::paths::sandbox_path;
use crate::output::notes::field;
use crate::output::relative_time::relative;
use crate::output::sandbox::sandbox_state;

/// Describe a sandbox.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox show \"$id\"
  elevo sandbox show \"$id\" --json | jq -r .expiresAt")]
pub(super) struct Show {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,
}

pub(super) fn run(call: &mut Call, args: &Show) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let found: api::Sandbox = call.wait(call.client.get(&sandbox_path(&id, &[])))?;
    if call.output.is_json() {
        call.output.value(&found)?;
        return Ok(());
    }
    let (resources, network) = (&found.resources, found.network);
    let network = match network {
        api::NetworkMode::None => "none",
        api::NetworkMode::Internet => "internet",
    };
    let agents = AgentNames::request(call);
    let text = |value: &Option<String>| value.clone().unwrap_or("-".into());
    let lines = [
        ("id", found.id.clone()),
        ("name", text(&found.name)),
        ("state", sandbox_state(&found).to_owned()),
        ("reason", text(&found.reason)),
        ("workspace", found.workspace.clone()),
        ("project", text(&found.project)),
        ("base", text(&found.base)),
        ("origin", found.origin.as_ref().map_or("-".into(), origin)),
        ("template", found.template.clone()),
        ("agent", agents.or_dash(found.agent.as_deref())),
        ("processors", text(&resources.cpu)),
        ("memory", text(&resources.memory)),
        ("disk", text(&resources.disk)),
        (
            "processes",
            resources.pids.map_or("-".into(), |pids| pids.to_string()),
        ),
        ("network", network.to_owned()),
        ("runtime", text(&found.runtime)),
        (
            "created",
            format!("{} ({})", found.created_at, relative(&found.created_at)),
        ),
        (
            "expires",
            format!("{} ({})", found.expires_at, relative(&found.expires_at)),
        ),
    ];
    for (name, value) in lines {
        if value != "-" {
            field(&mut call.output, name, &value)?;
        }
    }
    for (key, value) in &found.metadata {
        field(&mut call.output, "metadata", &format!("{key}={value}"))?;
    }
    Ok(())
}

/// Names the sandbox or snapshot that a sandbox was created from.
fn origin(origin: &api::Origin) -> String {
    match (&origin.sandbox, &origin.snapshot) {
        (Some(sandbox), _) => format!("fork of {sandbox}"),
        (None, Some(snapshot)) => format!("snapshot {snapshot}"),
        (None, None) => "-".into(),
    }
}
