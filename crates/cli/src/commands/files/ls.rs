use clap::Args;

use crate::client::Call;
use crate::client::files::find_files;
use crate::options::place::FilePlace;
use crate::output::file_info;

/// List a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Characters that could control the terminal are replaced in names.

Examples:
  elevo files ls \"$id\"                       the workspace of a sandbox
  elevo files ls \"$id:/var/log\" -l
  elevo files ls snapshot/good:src -r
  elevo files ls project/site@3 --json")]
pub(super) struct Ls {
    /// The directory; by default the root of the place
    #[arg(value_name = "PLACE[:PATH]")]
    place: FilePlace,

    /// Show kinds, permissions, sizes and targets of links
    #[arg(short, long)]
    long: bool,

    /// List subdirectories too
    #[arg(short, long)]
    recursive: bool,
}

pub(super) fn run(call: &mut Call, args: &Ls) -> anyhow::Result<()> {
    let files = find_files(call, &args.place)?;
    files.walk(call, &args.place.path, args.recursive, |call, file| {
        Ok(file_info::print(&mut call.output, file, args.long)?)
    })
}
