use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::files::find_writable;
use crate::errors::FileProblem;
use crate::options::place::FilePlace;
use crate::output::file_info;

/// Create a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Missing directories on the way are created. A directory that exists is not an
error. Prints the path.

Examples:
  elevo files mkdir \"$id:out/reports\"
  elevo files mkdir \"$id:private\" --mode 0700
  elevo files mkdir ws-6smi:a/b --no-parents")]
pub(super) struct Mkdir {
    /// The directory
    #[arg(value_name = "PLACE:PATH")]
    place: FilePlace,

    /// Permission bits in octal; 0755 by default
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,

    /// Fail if a directory on the way is missing
    #[arg(long)]
    no_parents: bool,
}

pub(super) fn run(call: &mut Call, args: Mkdir) -> anyhow::Result<()> {
    let place = args.place;
    if place.file_name().is_none() {
        return Err(FileProblem::NoPath(place.name).into());
    }
    let files = find_writable(call, &place)?;
    let wish = api::MakeDirectory {
        path: place.path,
        mode: args.mode,
        parents: args.no_parents.then_some(false),
    };
    let made = call.wait(files.change(call, "mkdir", &wish))?;
    Ok(file_info::print(&mut call.output, &made, false)?)
}
