use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::review::{decision, send_decision};
use crate::errors::Exit;

/// Reject a change.
#[derive(Debug, Args)]
#[command(after_help = "\
The project stays as it is; the workspace keeps its version.

Examples:
  elevo review reject rev-…
  elevo review reject rev-… -m \"not like this\"")]
pub(super) struct Reject {
    /// The review: its id or a unique prefix of it
    #[arg(value_name = "REVIEW")]
    id: String,

    /// Message that explains the decision
    #[arg(
        short,
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    message: String,
}

pub(super) fn run(call: &mut Call, args: Reject) -> anyhow::Result<Exit> {
    let rejected = decision(api::Take::Nothing, args.message, None);
    let id = find(call, Noun::Review, &args.id)?;
    send_decision(call, &id, rejected)
}
