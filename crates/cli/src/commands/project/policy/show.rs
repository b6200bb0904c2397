use clap::Args;

use crate::client::Call;
use crate::client::policy::get_policy;
use crate::options::policy::pretty_policy;

/// Print the policy of a project.
#[derive(Debug, Args)]
#[command(after_help = "\
The printed policy can be changed and set again.

Examples:
  elevo project policy show site
  elevo project policy show site > policy.json")]
pub(super) struct Show {
    /// The project, by name or id
    name: String,
}

pub(super) fn run(call: &mut Call, args: &Show) -> anyhow::Result<()> {
    let found = get_policy(call, &args.name)?;
    if call.output.is_json() {
        return Ok(call.output.value(&found)?);
    }
    Ok(call.output.line(pretty_policy(&found.policy)?)?)
}
