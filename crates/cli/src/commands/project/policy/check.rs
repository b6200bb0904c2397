use clap::Args;
use elevo_policy::Doing;
use serde_json::json;

use crate::client::Call;
use crate::client::names::{Noun, find_known};
use crate::client::policy::get_policy;
use crate::local::tree_path::tree_path;
use crate::output::notes::field;

/// Show the access of an agent to a path of a project.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints the access, whether the agent may create, change and remove the path, and
how a conflict there is resolved.

Examples:
  elevo project policy check site reviewer src/app.py
  elevo project policy check site reviewer .env --json | jq -r .access")]
pub(super) struct Check {
    /// The project, by name or id
    name: String,

    /// The agent, by name or id
    agent: String,

    /// The path; it need not exist
    path: String,
}

pub(super) fn run(call: &mut Call, args: &Check) -> anyhow::Result<()> {
    let agent = find_known(call, Noun::Agent, &args.agent)?;
    let path = tree_path(args.path.as_ref())?;
    let found = get_policy(call, &args.name)?;
    let policy = found.policy.compile()?;
    let view = policy.for_agent(Some(&agent));
    let (access, strategy) = (view.access(&path), policy.strategy(&path));
    let actions = [
        ("create", Doing::Create),
        ("change", Doing::Change),
        ("remove", Doing::Remove),
    ];
    let may = actions.map(|(name, doing)| (name, view.check(&path, doing)));
    if call.output.is_json() {
        let [create, change, remove] = may.map(|(_, checked)| checked.is_ok());
        return Ok(call.output.value(&json!({
            "agent": agent,
            "path": path.to_string(),
            "access": access.as_str(),
            "create": create,
            "change": change,
            "remove": remove,
            "strategy": strategy.as_str(),
        }))?);
    }
    field(&mut call.output, "access", access.as_str())?;
    for (name, checked) in may {
        let text = match checked {
            Ok(()) => "yes".to_owned(),
            Err(refusal) => format!("no: {refusal}"),
        };
        field(&mut call.output, name, &text)?;
    }
    Ok(field(&mut call.output, "conflicts", strategy.as_str())?)
}
