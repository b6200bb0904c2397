use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use reqwest::Method;
use tempfile::NamedTempFile;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::client::project_state::resolve_some;
use crate::errors::FileProblem;

/// Write files of a project as a tar archive, in the newest or an older state.
#[derive(Debug, Args)]
#[command(after_help = "\
The archive is streamed, so the size of the project does not matter. Without -o
it is written to standard output, but not to a terminal.

Examples:
  elevo project export site -o site.tar
  elevo project export site docs --at 3 | tar x -C /tmp")]
pub(super) struct Export {
    /// The project, by name or id
    name: String,

    /// File or directory; the whole project by default
    path: Option<String>,

    /// State of the project; the newest by default
    #[arg(long, value_name = "REV")]
    at: Option<String>,

    /// File to write; it appears when the archive is complete. - for standard
    /// output
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    output: PathBuf,
}

pub(super) fn run(call: &mut Call, args: &Export) -> anyhow::Result<()> {
    let to_file = args.output.as_os_str() != "-";
    if !to_file && call.output.is_terminal() {
        return Err(FileProblem::ArchiveToTerminal.into());
    }
    let project = find(call, Noun::Project, &args.name)?;
    let at = resolve_some(call, &project, args.at.as_ref())?;
    let path = project_path(&project, &["archive"]);
    let request = call.client.request(Method::GET, &path);
    let request = request.query(&[("path", args.path.as_deref().unwrap_or_default())]);
    let request = match &at {
        Some(at) => request.query(&[("snapshot", at)]),
        None => request,
    };
    let mut answer = call.watch("reading", call.client.send(request))?;
    let mut file = match to_file {
        true => Some(beside(&args.output)?),
        false => None,
    };
    while let Some(piece) = call
        .wait(answer.chunk())
        .map_err(|error| call.client.lost(error))
        .context("the archive is incomplete")?
    {
        match &mut file {
            Some(file) => {
                let written = file.write_all(&piece);
                written.map_err(|source| FileProblem::not_written(&args.output, source))?;
            }
            None => call.output.bytes(&piece)?,
        }
    }
    if let Some(file) = file {
        let kept = file.persist(&args.output);
        kept.map_err(|error| FileProblem::not_written(&args.output, error.error))?;
    }
    Ok(())
}

/// Creates a temporary file in the directory of `path`, with the usual mode.
fn beside(path: &Path) -> Result<NamedTempFile, FileProblem> {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    let made = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent.unwrap_or(Path::new(".")));
    made.map_err(|source| FileProblem::not_written(path, source))
}
