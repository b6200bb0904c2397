use clap::Args;
use serde_json::json;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::project_file::read_file;
use crate::client::project_state::resolve_some;
use crate::errors::ProjectProblem;
use crate::options::target::Target;
use crate::output::json;

/// Print a file of a project, in the newest or an older state.
#[derive(Debug, Args)]
#[command(after_help = "\
A symbolic link is followed. With --json also the mode and the ETag.

Examples:
  elevo project cat site:index.html
  elevo project cat site@3:index.html           after step 3
  elevo project cat site@head~1:index.html      before the newest step")]
pub(super) struct Cat {
    /// The project and the file, and a state: by default the newest
    #[arg(value_name = "NAME[@REV]:PATH")]
    target: Target,
}

pub(super) fn run(call: &mut Call, args: &Cat) -> anyhow::Result<()> {
    let target = &args.target;
    let Some(path) = &target.path else {
        return Err(ProjectProblem::NoPath(target.project.clone()).into());
    };
    let project = find(call, Noun::Project, &target.project)?;
    let at = resolve_some(call, &project, target.revision.as_ref())?;
    let (headers, bytes) = read_file(call, &project, path, at.as_ref())?;
    if !call.output.is_json() {
        return Ok(call.output.bytes(&bytes)?);
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let mut shape = json!({
        "path": path,
        "mode": header("x-elevo-mode"),
        "etag": header("etag"),
    });
    match std::str::from_utf8(&bytes) {
        Ok(text) => shape["text"] = text.into(),
        Err(_) => shape["base64"] = json::base64(&bytes).into(),
    }
    Ok(call.output.value(&shape)?)
}
