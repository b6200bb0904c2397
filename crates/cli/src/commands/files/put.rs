use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use elevo_api as api;
use futures::TryStreamExt;
use reqwest::{Body, Method, header};
use tokio_util::io::ReaderStream;

use crate::client::files::find_writable;
use crate::client::{Call, Done};
use crate::errors::FileProblem;
use crate::options::place::FilePlace;
use crate::output::{file_info, format};

/// Upload a file
#[derive(Debug, Args)]
#[command(after_help = "\
The new content replaces the file at once when all of it has arrived. Missing
directories are created. A PATH that ends with `/` is a directory, in which the
file keeps its name.

Examples:
  elevo files put main.py \"$id:src/main.py\"
  elevo files put main.py \"$id:src/\"
  date | elevo files put - \"$id:now\"
  elevo files put run.sh \"$id:run.sh\" --mode 0755
  elevo files put page \"$id:page\" --if-match \"$etag\"")]
pub(super) struct Put {
    /// The file to send, or `-` for standard input
    #[arg(value_name = "FILE")]
    from: PathBuf,

    /// The file on the server
    #[arg(value_name = "PLACE:PATH")]
    place: FilePlace,

    /// Permission bits in octal; by default those of FILE
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,

    /// Fail if a directory on the way is missing
    #[arg(long)]
    no_parents: bool,

    /// Replace the file only if it still has this ETag, as `cat --json` prints it
    #[arg(long, value_name = "ETAG", conflicts_with = "new")]
    if_match: Option<String>,

    /// Fail if the file exists
    #[arg(long)]
    new: bool,
}

pub(super) fn run(call: &mut Call, args: &Put) -> anyhow::Result<()> {
    let source = Source::open(&args.from)?;
    let path = target(args)?;
    let files = find_writable(call, &args.place)?;
    let mut request = files.request(call, Method::PUT, &path);
    if let Some(mode) = args.mode.clone().or(source.mode) {
        request = request.query(&[("mode", mode)]);
    }
    if args.no_parents {
        request = request.query(&[("parents", "false")]);
    }
    if let Some(etag) = &args.if_match {
        request = request.header(header::IF_MATCH, etag);
    }
    if args.new {
        request = request.header(header::IF_NONE_MATCH, "*");
    }
    if let Some(size) = source.size {
        request = request.header(header::CONTENT_LENGTH, size);
    }
    let done = Arc::new(Done::default());
    let counted = done.clone();
    let pieces = ReaderStream::with_capacity(source.input, 256 << 10);
    let pieces = pieces.inspect_ok(move |piece: &bytes::Bytes| {
        counted
            .bytes
            .fetch_add(piece.len() as u64, Ordering::Relaxed);
    });
    let request = request.body(Body::wrap_stream(pieces));
    let sending = call.client.json_at_last(request);
    let file: api::FileInfo = call.watch_done("uploading", "", &done, sending)?;
    match call.output.is_json() {
        true => file_info::print(&mut call.output, &file, false)?,
        false => call.note(&format!(
            "wrote {} to {}",
            format::bytes(done.bytes.load(Ordering::Relaxed)),
            format::first_line(&file.path)
        )),
    }
    Ok(())
}

/// Returns the path of the file on the server.
fn target(args: &Put) -> Result<String, FileProblem> {
    let path = &args.place.path;
    if !path.is_empty() && !path.ends_with('/') {
        return Ok(path.clone());
    }
    let name = args.from.file_name().and_then(|name| name.to_str());
    match name.filter(|name| *name != "-") {
        Some(name) => Ok(format!("{path}{name}")),
        None => Err(FileProblem::NoPath(args.place.name.clone())),
    }
}

/// The content to send.
struct Source {
    input: tokio::fs::File,
    size: Option<u64>,
    mode: Option<String>,
}

impl Source {
    fn open(path: &Path) -> Result<Self, FileProblem> {
        let is_stream = path.as_os_str() == "-";
        let opened = match is_stream {
            true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
            false => File::open(path),
        };
        let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
        let (found, file) = opened.map_err(|source| FileProblem::Io {
            action: "read",
            path: path.into(),
            source,
        })?;
        if found.is_dir() {
            return Err(FileProblem::Directory(path.into()));
        }
        // A part of a file on standard input may have been read already.
        let is_whole = found.is_file() && !is_stream;
        let mode = found.permissions().mode() & 0o777;
        Ok(Self {
            input: tokio::fs::File::from_std(file),
            size: is_whole.then_some(found.len()),
            mode: is_whole.then(|| format!("{mode:04o}")),
        })
    }
}
