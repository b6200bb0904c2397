use clap::Args;
use serde_json::json;

use crate::client::Call;
use crate::client::project_file::read_file;
use crate::client::project_state::resolve_some;
use crate::output::json;

/// Print a file of a project, from the current or an earlier state.
#[derive(Debug, Args)]
#[command(after_help = "\
For a symbolic link, prints its target. With --json also the kind and the mode.

Examples:
  elevo project cat site index.html
  elevo project cat site index.html --at 3      after step 3")]
pub(super) struct Cat {
    /// The project, by name or id
    name: String,

    /// The file
    path: String,

    /// A state of the project; the newest by default
    #[arg(long, value_name = "SNAPSHOT")]
    at: Option<String>,
}

pub(super) fn run(call: &mut Call, args: &Cat) -> anyhow::Result<()> {
    let at = resolve_some(call, &args.name, args.at.as_ref())?;
    let (headers, bytes) = read_file(call, &args.name, &args.path, at.as_ref())?;
    if !call.output.is_json() {
        return Ok(call.output.bytes(&bytes)?);
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let mut shape = json!({
        "path": args.path,
        "type": header("x-elevo-type"),
        "mode": header("x-elevo-mode"),
        "id": header("x-elevo-id").filter(|id| !id.is_empty()),
    });
    match std::str::from_utf8(&bytes) {
        Ok(text) => shape["text"] = text.into(),
        Err(_) => shape["base64"] = json::base64(&bytes).into(),
    }
    Ok(call.output.value(&shape)?)
}
