use clap::Args;
use reqwest::Method;
use serde_json::json;

use crate::client::Call;
use crate::client::files::find_writable;
use crate::errors::{Exit, FileProblem};
use crate::options::place::FilePlace;
use crate::output::format;

/// Delete files
#[derive(Debug, Args)]
#[command(after_help = "\
Deletes a symbolic link itself, never its target. Without --recursive a directory
is deleted only if it is empty.

Examples:
  elevo files rm \"$id:old.txt\"
  elevo files rm \"$id:a\" \"$id:b\"
  elevo files rm -r \"$id:build\"")]
pub(super) struct Rm {
    /// The files
    #[arg(value_name = "PLACE:PATH", required = true)]
    places: Vec<String>,

    /// Delete directories with everything in them
    #[arg(short, long)]
    recursive: bool,
}

pub(super) fn run(call: &mut Call, args: &Rm) -> anyhow::Result<Exit> {
    call.each(&args.places, |call, text| {
        remove(call, text, args.recursive)
    })
}

fn remove(call: &mut Call, text: &str, is_recursive: bool) -> anyhow::Result<()> {
    let Ok(place) = text.parse::<FilePlace>();
    if place.file_name().is_none() {
        return Err(FileProblem::NoPath(place.name).into());
    }
    let files = find_writable(call, &place)?;
    let request = files.request(call, Method::DELETE, &place.path);
    let request = request.query(&[("recursive", is_recursive)]);
    // A large directory takes longer than other requests.
    call.watch("deleting", call.client.send(request))?;
    match call.output.is_json() {
        true => call.output.value(&json!({ "deleted": text }))?,
        false => call
            .output
            .line(format!("deleted {}", format::first_line(text)))?,
    }
    Ok(())
}
