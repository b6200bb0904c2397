use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::files::find_writable;
use crate::errors::FileProblem;
use crate::options::place::FilePlace;
use crate::output::file_info;

/// Move or rename a file or directory
#[derive(Debug, Args)]
#[command(after_help = "\
TO is the new path in the same place. Prints it.

Examples:
  elevo files mv \"$id:draft.md\" page.md
  elevo files mv ws-6smi:old/dir new/dir
  elevo files mv \"$id:new.json\" config.json --overwrite")]
pub(super) struct Mv {
    /// The file or directory
    #[arg(value_name = "PLACE:FROM")]
    place: FilePlace,

    /// The new path
    #[arg(value_name = "TO")]
    to: String,

    /// Replace a file at the new path
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn run(call: &mut Call, args: Mv) -> anyhow::Result<()> {
    let place = args.place;
    if place.file_name().is_none() {
        return Err(FileProblem::NoPath(place.name).into());
    }
    let files = find_writable(call, &place)?;
    let wish = api::MoveFile {
        from: place.path,
        to: args.to,
        overwrite: args.overwrite,
    };
    let moved = call.watch("moving", files.change(call, "move", &wish))?;
    Ok(file_info::print(&mut call.output, &moved, false)?)
}
