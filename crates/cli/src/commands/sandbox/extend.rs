use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::input::duration::seconds;
use crate::output::relative_time::relative;
use crate::output::sandbox::print_changed_sandbox;

/// Extend the lifetime of a sandbox.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox extend \"$id\" 30m")]
pub(super) struct Extend {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,

    /// Time to add: seconds, or with s, m, h or d; at most 1h at a time
    #[arg(value_name = "TIME", value_parser = seconds)]
    seconds: u32,
}

pub(super) fn run(call: &mut Call, args: &Extend) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let wish = api::Extend {
        seconds: args.seconds,
    };
    let path = sandbox_path(&id, &["extend"]);
    let asking = call.client.post(&path, &wish);
    let extended: api::Sandbox = call.wait(asking)?;
    if call.output.is_json() {
        return print_changed_sandbox(call, &extended, "");
    }
    let (id, until) = (&extended.id, &extended.expires_at);
    let line = format!("{id} expires at {until}, {}", relative(until));
    Ok(call.output.line(line)?)
}
