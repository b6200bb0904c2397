use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Args;
use reqwest::Response;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::client::files::find_files;
use crate::client::{Call, Done};
use crate::errors::FileProblem;
use crate::options::place::FilePlace;
use crate::output::format;

/// Download a file
#[derive(Debug, Args)]
#[command(after_help = "\
The file gets its permission bits. An existing FILE is replaced when the download
is complete.

Examples:
  elevo files get \"$id:out/report.html\"            into the current directory
  elevo files get \"$id:out/report.html\" /tmp/
  elevo files get snapshot/good:main.py old.py
  elevo files get \"$id:data.bin\" - | sha256sum")]
pub(super) struct Get {
    /// The file on the server
    #[arg(value_name = "PLACE:PATH")]
    place: FilePlace,

    /// The file to write, a directory for it, or `-` for standard output; by
    /// default a file of the same name in the current directory
    #[arg(value_name = "FILE")]
    to: Option<PathBuf>,
}

pub(super) fn run(call: &mut Call, args: &Get) -> anyhow::Result<()> {
    let place = &args.place;
    let name = place.file_name();
    let name = name.ok_or_else(|| FileProblem::NoPath(place.name.clone()))?;
    let to = match &args.to {
        None => PathBuf::from(name),
        Some(to) if is_directory(to) => to.join(name),
        Some(to) => to.clone(),
    };
    let files = find_files(call, place)?;
    let mut answer = call.watch("reading", files.open(call, &place.path))?;
    let done = Done::default();
    if to.as_os_str() == "-" {
        return to_output(call, answer);
    }
    let mode = answer.headers().get("x-elevo-mode");
    let mode = mode.and_then(|mode| u32::from_str_radix(mode.to_str().ok()?, 8).ok());
    let etag = answer
        .headers()
        .get("etag")
        .and_then(|tag| tag.to_str().ok());
    let etag = etag.map(str::to_owned);
    let mut file = NewFile::create(&to).map_err(|error| FileProblem::not_written(&to, error))?;
    call.watch_done("downloading", "", &done, async {
        while let Some(piece) = answer
            .chunk()
            .await
            .map_err(|error| call.client.lost(error))?
        {
            let written = file.out().write_all(&piece);
            written.map_err(|error| FileProblem::not_written(&to, error))?;
            done.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        anyhow::Ok(())
    })?;
    let kept = file.keep(&to, mode.unwrap_or(0o644));
    kept.map_err(|error| FileProblem::not_written(&to, error))?;
    let bytes = done.bytes.into_inner();
    match call.output.is_json() {
        true => {
            let shape = json!({ "file": to.to_string_lossy(), "bytes": bytes, "etag": etag });
            call.output.value(&shape)?;
        }
        false => call.note(&format!(
            "wrote {} to {}",
            format::bytes(bytes),
            format::first_line(&to.to_string_lossy())
        )),
    }
    Ok(())
}

/// Writes a file to standard output.
fn to_output(call: &mut Call, mut answer: Response) -> anyhow::Result<()> {
    loop {
        let piece = call.wait(answer.chunk());
        match piece.map_err(|error| call.client.lost(error))? {
            Some(piece) => call.output.bytes(&piece)?,
            None => return Ok(()),
        }
    }
}

fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// A file that is being written.
enum NewFile {
    /// A temporary file, which then gets the name.
    Temporary(NamedTempFile),
    /// A device or pipe, which must not be replaced.
    Special(File),
}

impl NewFile {
    fn create(path: &Path) -> io::Result<Self> {
        let is_special = fs::metadata(path).is_ok_and(|found| !found.is_file());
        if is_special {
            return Ok(Self::Special(File::options().write(true).open(path)?));
        }
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        let directory = parent.unwrap_or_else(|| Path::new("."));
        Ok(Self::Temporary(NamedTempFile::new_in(directory)?))
    }

    fn out(&mut self) -> &mut File {
        match self {
            Self::Temporary(file) => file.as_file_mut(),
            Self::Special(file) => file,
        }
    }

    /// Gives a complete file its name and its permission bits. Bits such as
    /// setuid are dropped, because the file comes from a sandbox.
    fn keep(self, path: &Path, mode: u32) -> io::Result<()> {
        let Self::Temporary(file) = self else {
            return Ok(());
        };
        let mode = Permissions::from_mode(mode & 0o777);
        file.as_file().set_permissions(mode)?;
        file.persist(path)?;
        Ok(())
    }
}
