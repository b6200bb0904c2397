use std::path::PathBuf;

use clap::Args;
use elevo_api as api;

use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::client::project_state::resolve_some;
use crate::client::{Call, merge};
use crate::errors::Exit;
use crate::input::file;
use crate::options::merge::MergeOptions;
use crate::output::json;

/// Maximum bytes of a patch that the server accepts.
const LARGEST: u64 = 32 << 20;

/// Apply a patch to a project.
#[derive(Debug, Args)]
#[command(after_help = "\
The patch has the format of `git diff`. It must match the files of --base
exactly, or it is rejected. It is merged with the changes that have landed since
--base. The exit codes are those of `elevo ws merge`.

Examples:
  git diff | elevo project apply site -
  elevo project apply site fix.patch --base 3 -m \"a fix\"
  elevo project apply site fix.patch --dry-run")]
pub(super) struct Apply {
    /// The project, by name or id
    name: String,

    /// The patch; - for standard input
    patch: PathBuf,

    /// State of the project that the patch was created from; the newest by default
    #[arg(long, value_name = "REV")]
    base: Option<String>,

    #[command(flatten)]
    how: MergeOptions,
}

pub(super) fn run(call: &mut Call, args: Apply) -> anyhow::Result<Exit> {
    let project = find(call, Noun::Project, &args.name)?;
    let base = resolve_some(call, &project, args.base.as_ref())?;
    let bytes = file::read_bytes(&args.patch, LARGEST)?;
    let (patch, patch_base64) = match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(bytes) => (None, Some(json::base64(bytes.as_bytes()))),
    };
    let wish = api::Apply {
        base,
        patch,
        patch_base64,
        files: Vec::new(),
        merge: args.how.wish(),
    };
    let path = project_path(&project, &["apply"]);
    merge::merge(call, &path, &wish, "merging")
}
