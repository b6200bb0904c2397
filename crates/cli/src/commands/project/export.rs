use anyhow::Context;
use clap::Args;
use reqwest::Method;

use crate::client::Call;
use crate::client::paths::project_path;
use crate::client::project_state::resolve_some;
use crate::errors::FileProblem;

/// Print files of a project as a tar archive, from the current or an earlier state.
#[derive(Debug, Args)]
#[command(after_help = "\
The archive is streamed, so the size of the project does not matter.

Examples:
  elevo project export site > site.tar
  elevo project export site docs --at 3 | tar x -C /tmp")]
pub(super) struct Export {
    /// The project, by name or id
    name: String,

    /// File or directory; the whole project by default
    path: Option<String>,

    /// State of the project; the newest by default
    #[arg(long, value_name = "SNAPSHOT")]
    at: Option<String>,
}

pub(super) fn run(call: &mut Call, args: &Export) -> anyhow::Result<()> {
    if call.output.is_terminal() {
        return Err(FileProblem::ArchiveToTerminal.into());
    }
    let at = resolve_some(call, &args.name, args.at.as_ref())?;
    let path = project_path(&args.name, &["archive"]);
    let request = call.client.request(Method::GET, &path);
    let request = request.query(&[("path", args.path.as_deref().unwrap_or_default())]);
    let request = match &at {
        Some(at) => request.query(&[("snapshot", at)]),
        None => request,
    };
    let mut answer = call.watch("reading", call.client.send(request))?;
    while let Some(piece) = call
        .wait(answer.chunk())
        .map_err(|error| call.client.lost(error))
        .context("the archive is incomplete")?
    {
        call.output.bytes(&piece)?;
    }
    Ok(())
}
