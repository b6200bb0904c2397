use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::input::duration::seconds;

/// Print an address that opens a port without a key
#[derive(Debug, Args)]
#[command(after_help = "\
The address is a secret. It ends when it expires, with the key that created it,
and with the sandbox. Pages with scripts and cookies need a server with
PORTS_DOMAIN; a browser that opens the address then gets a cookie for the port.

Examples:
  elevo port link \"$id\" 3000
  elevo port link \"$id\" 3000 --expires 15m
  curl --location --cookie '' \"$(elevo port link \"$id\" 3000)\"
  elevo port link \"$id\" 3000 --json | jq -r .expiresAt")]
pub(super) struct Link {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    sandbox: String,

    /// The port that a program in the sandbox listens on
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,

    /// Time until the address expires: seconds, or with s, m, h or d; at most 24h
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "1h")]
    expires: u32,
}

pub(super) fn run(call: &mut Call, args: &Link) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.sandbox)?;
    let wish = api::CreatePortLink {
        expires_in: Some(args.expires),
    };
    let port = args.port.to_string();
    let path = sandbox_path(&id, &["ports", &port, "link"]);
    let link: api::PortLink = call.wait(call.client.post(&path, &wish))?;
    match call.output.is_json() {
        true => call.output.value(&link)?,
        false => call.output.line(&link.url)?,
    }
    Ok(())
}
