use clap::Args;
use serde_json::json;

use crate::client::Call;
use crate::client::files::find_files;
use crate::errors::FileProblem;
use crate::options::place::FilePlace;
use crate::output::json;

/// Print a file
#[derive(Debug, Args)]
#[command(after_help = "\
Prints the bytes as they are. With --json prints an object with `text`, or with
`base64` for a file that is not UTF-8, and with the mode and the ETag.

Examples:
  elevo files cat \"$id:out/report.txt\"
  elevo files cat \"$id:/etc/os-release\"
  elevo files cat snapshot/good:main.py
  elevo files cat project/site@v1:logo.png > logo.png")]
pub(super) struct Cat {
    /// The file
    #[arg(value_name = "PLACE:PATH")]
    place: FilePlace,
}

pub(super) fn run(call: &mut Call, args: &Cat) -> anyhow::Result<()> {
    let place = &args.place;
    if place.file_name().is_none() {
        return Err(FileProblem::NoPath(place.name.clone()).into());
    }
    let files = find_files(call, place)?;
    let mut answer = call.watch("reading", files.open(call, &place.path))?;
    if !call.output.is_json() {
        loop {
            let piece = call.wait(answer.chunk());
            match piece.map_err(|error| call.client.lost(error))? {
                Some(piece) => call.output.bytes(&piece)?,
                None => return Ok(()),
            }
        }
    }
    let headers = answer.headers().clone();
    let bytes = call.watch("reading", call.client.body(answer))?;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let mut shape = json!({
        "path": place.path,
        "mode": header("x-elevo-mode"),
        "etag": header("etag"),
    });
    match std::str::from_utf8(&bytes) {
        Ok(text) => shape["text"] = text.into(),
        Err(_) => shape["base64"] = json::base64(&bytes).into(),
    }
    Ok(call.output.value(&shape)?)
}
