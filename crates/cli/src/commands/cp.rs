//! `elevo cp`: copies files into a sandbox or workspace and out of it.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use clap::Args;
use reqwest::{Body, Method, Response};
use serde_json::json;
use tokio_util::io::{ReaderStream, StreamReader, SyncIoBridge};

use crate::client::names::{Noun, find};
use crate::client::paths::{archive_path, is_workspace};
use crate::client::{self, Call, Client, Done, Reach, tar_copy};
use crate::errors::{Exit, FileProblem, SandboxProblem};
use crate::output::format;

/// Copy files into the workspace of a sandbox or project, or out of it.
#[derive(Debug, Args)]
#[command(after_help = "\
Either SRC or DST is SANDBOX:PATH, with a path in the workspace, or ws-…:PATH for
a workspace on a server that has no sandbox. Directories are
copied with their content. DST is the new name of SRC; if it ends with `/` (or
is a directory on this machine), SRC is copied into it under its own name. Files
of the same name are replaced; other files in a directory stay. Links are copied
as links. `-` is a tar archive on standard input or output.

Examples:
  elevo cp main.py \"$id:\"                   into the workspace
  elevo cp src \"$id:project/src\"            a directory
  elevo cp \"$id:out/report.html\" .
  elevo cp \"$id:\" ./copy                    all of the workspace
  git archive HEAD | elevo cp - \"$id:\"
  elevo cp \"$id:out\" - | tar t")]
pub(crate) struct Cp {
    /// Source: a path, SANDBOX:PATH or -
    #[arg(value_name = "SRC")]
    from: PathBuf,

    /// Destination: a path, SANDBOX:PATH or -
    #[arg(value_name = "DST")]
    to: PathBuf,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// The source or destination of a copy.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Here(PathBuf),
    Stream,
    Sandbox { id: String, path: String },
}

impl End {
    fn new(path: &Path) -> Self {
        if path.as_os_str() == "-" {
            return Self::Stream;
        }
        let split = path.to_str().and_then(|text| text.split_once(':'));
        match split {
            Some((id, path)) if !id.is_empty() && !id.contains('/') && !id.starts_with('.') => {
                let path = path.strip_prefix("/workspace/").unwrap_or(path);
                let path = if path == "/workspace" { "" } else { path };
                Self::Sandbox {
                    id: id.into(),
                    path: path.into(),
                }
            }
            _ => Self::Here(path.into()),
        }
    }
}

pub(crate) fn run(args: &Cp) -> anyhow::Result<Exit> {
    let ends = (End::new(&args.from), End::new(&args.to));
    client::run_on_server(&args.reach, |call| {
        let done = Arc::new(Done::default());
        match (found(call, ends.0)?, found(call, ends.1)?) {
            (End::Here(from), End::Sandbox { id, path }) => upload(call, from, &id, &path, &done)?,
            (End::Stream, End::Sandbox { id, path }) => send_stream(call, &id, &path, &done)?,
            (End::Sandbox { id, path }, End::Here(to)) => download(call, &id, &path, to, &done)?,
            (End::Sandbox { id, path }, End::Stream) => {
                receive_stream(call, &id, &path, &done)?;
                return Ok(Exit::Done);
            }
            _ => return Err(SandboxProblem::CopyEnds.into()),
        }
        let (things, bytes) = (&done.things, &done.bytes);
        let (things, bytes) = (
            things.load(Ordering::Relaxed),
            bytes.load(Ordering::Relaxed),
        );
        match call.output.is_json() {
            true => call
                .output
                .value(&json!({ "entries": things, "bytes": bytes }))?,
            false if things == 0 => call.note(&format!("copied {}", format::bytes(bytes))),
            false => call.note(&format!("copied {}", format::totals(things, bytes))),
        }
        Ok(Exit::Done)
    })
}

/// Resolves the name of a sandbox, or the prefix of the id of a workspace.
fn found(call: &Call, end: End) -> anyhow::Result<End> {
    Ok(match end {
        End::Sandbox { id, path } => {
            let noun = match is_workspace(&id) {
                true => Noun::Workspace,
                false => Noun::Sandbox,
            };
            let id = find(call, noun, &id)?;
            End::Sandbox { id, path }
        }
        other => other,
    })
}

/// The last component of a path, also of one like `.` that has none.
fn own_name(path: &Path) -> Result<String, FileProblem> {
    let name = match path.file_name() {
        Some(name) => Some(name.to_owned()),
        None => {
            let full = path.canonicalize().ok();
            full.and_then(|full| full.file_name().map(ToOwned::to_owned))
        }
    };
    let name = name.and_then(|name| name.into_string().ok());
    name.ok_or_else(|| FileProblem::PathNotText(path.into()))
}

/// Splits a destination in a workspace into the directory and the name there.
fn split_target(path: &str, own: &str) -> (String, String) {
    if path.is_empty() || path.ends_with('/') || path == "." {
        return (path.to_owned(), own.to_owned());
    }
    match path.rsplit_once('/') {
        Some((parent, name)) => (parent.to_owned(), name.to_owned()),
        None => (String::new(), path.to_owned()),
    }
}

fn upload(
    call: &mut Call,
    from: PathBuf,
    id: &str,
    path: &str,
    done: &Arc<Done>,
) -> anyhow::Result<()> {
    let meta = fs::symlink_metadata(&from).map_err(|source| FileProblem::Io {
        action: "read",
        path: from.clone(),
        source,
    })?;
    // The content of a directory like `.` goes to the root of the workspace,
    // which has no name.
    let is_root = meta.is_dir() && (path.is_empty() || path == ".") && from.file_name().is_none();
    let (directory, name) = match is_root {
        true => (String::new(), String::new()),
        false => split_target(path, &own_name(&from)?),
    };
    let counted = done.clone();
    let pack = move |out| tar_copy::pack(&from, Path::new(&name), out, &counted);
    let notes = send(call, id, &directory, done, pack)?;
    for note in notes {
        call.note(&note);
    }
    Ok(())
}

fn send_stream(call: &mut Call, id: &str, path: &str, done: &Arc<Done>) -> anyhow::Result<()> {
    let counted = done.clone();
    send(call, id, path, done, move |out| {
        let mut out = tar_copy::Counting::new(out, &counted);
        io::copy(&mut io::stdin().lock(), &mut out)?;
        Ok(out.flush()?)
    })
}

/// A writer whose bytes are sent to the server at once; a write waits while the
/// server is slower.
type Pipe = io::BufWriter<SyncIoBridge<tokio::io::DuplexStream>>;

const PIPE: usize = 256 << 10;

fn send<T: Send + 'static>(
    call: &Call,
    id: &str,
    path: &str,
    done: &Done,
    write: impl FnOnce(Pipe) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let at = archive_path(id);
    call.watch_done("copying", "entries", done, async {
        let (near, far) = tokio::io::duplex(PIPE);
        let (failed, failure) = tokio::sync::oneshot::channel::<()>();
        let out = io::BufWriter::with_capacity(PIPE, SyncIoBridge::new(near));
        let writing = tokio::task::spawn_blocking(move || {
            let written = write(out);
            if written.is_err() {
                let _ = failed.send(());
            }
            written
        });
        let request = call.client.request(Method::PUT, &at);
        let request = request
            .query(&[("path", path)])
            .header("content-type", "application/x-tar")
            .body(Body::wrap_stream(ReaderStream::new(far)));
        let sending = call.client.send(request);
        // On a failure, drop the request before its body ends, so that the
        // server does not accept a truncated archive as complete.
        let sent = tokio::select! {
            sent = sending => Some(sent),
            Ok(()) = failure => None,
        };
        match sent {
            Some(Err(error)) => Err(error.into()),
            Some(Ok(_)) | None => writing.await?,
        }
    })
}

async fn receive(client: &Client, id: &str, path: &str) -> crate::client::Result<Response> {
    let at = archive_path(id);
    let request = client.request(Method::GET, &at);
    client.send(request.query(&[("path", path)])).await
}

/// Returns a blocking reader of a body.
fn reader(answer: Response) -> impl Read + Send {
    use futures::TryStreamExt;
    let stream = answer.bytes_stream().map_err(io::Error::other);
    SyncIoBridge::new(StreamReader::new(Box::pin(stream)))
}

fn receive_stream(call: &mut Call, id: &str, path: &str, done: &Arc<Done>) -> anyhow::Result<()> {
    let counted = done.clone();
    call.watch_done("copying", "entries", done, async {
        let answer = receive(&call.client, id, path).await?;
        let copying = tokio::task::spawn_blocking(move || {
            let mut out = tar_copy::Counting::new(io::stdout().lock(), &counted);
            io::copy(&mut reader(answer), &mut out)?;
            out.flush()
        });
        match copying.await? {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Err(crate::output::OutputError(error).into())
            }
            copied => copied.context("cannot write the archive to standard output"),
        }
    })
}

fn download(
    call: &mut Call,
    id: &str,
    path: &str,
    to: PathBuf,
    done: &Arc<Done>,
) -> anyhow::Result<()> {
    let clean = path.trim_matches('/');
    let own = clean.rsplit('/').next().unwrap_or_default().to_owned();
    let is_into = to.is_dir() || to.as_os_str().as_encoded_bytes().ends_with(b"/");
    let counted = done.clone();
    call.watch_done("copying", "entries", done, async {
        let answer = receive(&call.client, id, path).await?;
        // If the source contains a path with its own name, the source is a
        // directory, even if the archive looks like that of a single file.
        let below = format!("{clean}/{own}");
        let is_certainly_directory = match own.is_empty() {
            true => true,
            false => receive(&call.client, id, &below).await.is_ok(),
        };
        let target = tar_copy::Target {
            to,
            own,
            is_into,
            is_certainly_directory,
        };
        let unpacking = tokio::task::spawn_blocking(move || {
            tar_copy::unpack(reader(answer), &target, &counted)
        });
        unpacking.await?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_path_a_stream_or_in_a_sandbox() {
        let sandbox = |id: &str, path: &str| End::Sandbox {
            id: id.into(),
            path: path.into(),
        };
        for (text, end) in [
            ("-", End::Stream),
            ("a/b", End::Here("a/b".into())),
            ("./a:b", End::Here("./a:b".into())),
            ("/tmp/a:b", End::Here("/tmp/a:b".into())),
            ("sbx-1:", sandbox("sbx-1", "")),
            ("sbx-1:a/b", sandbox("sbx-1", "a/b")),
            ("sbx-1:/workspace/a", sandbox("sbx-1", "a")),
            ("sbx-1:/workspace", sandbox("sbx-1", "")),
        ] {
            assert_eq!(End::new(Path::new(text)), end, "{text}");
        }
    }

    #[test]
    fn a_target_is_a_name_or_a_directory_to_go_into() {
        for (path, directory, name) in [
            ("", "", "own"),
            ("a/", "a/", "own"),
            ("a", "", "a"),
            ("a/b", "a", "b"),
        ] {
            let split = split_target(path, "own");
            assert_eq!(split, (directory.into(), name.into()), "{path}");
        }
    }
}
