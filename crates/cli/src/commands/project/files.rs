use clap::Args;

use crate::client::Call;
use crate::client::files::find_files;
use crate::options::place::{FilePlace, PlaceKind};
use crate::options::target::Target;
use crate::output::file_info;

/// List files of a project, in the newest or an older state.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project files site
  elevo project files site:docs -l
  elevo project files site@3 -r                 all files after step 3")]
pub(super) struct Files {
    /// The project, with a state and a directory: by default the newest state and
    /// the root
    #[arg(value_name = "NAME[@REV][:PATH]")]
    target: Target,

    /// Show permissions and sizes
    #[arg(short, long)]
    long: bool,

    /// List subdirectories too
    #[arg(short, long)]
    recursive: bool,
}

pub(super) fn run(call: &mut Call, args: &Files) -> anyhow::Result<()> {
    let Target {
        project,
        revision,
        path,
    } = args.target.clone();
    let place = FilePlace {
        of: PlaceKind::Project { revision },
        name: project,
        path: path.unwrap_or_default(),
    };
    let files = find_files(call, &place)?;
    files.walk(call, &place.path, args.recursive, |call, file| {
        Ok(file_info::print(&mut call.output, file, args.long)?)
    })
}
