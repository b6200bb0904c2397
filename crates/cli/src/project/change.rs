//! Patches, imports and exports of a project, without a workspace.

use std::io::Cursor;
use std::os::fd::AsFd;
use std::path::PathBuf;

use anyhow::Context;
use clap::{ArgGroup, Args};
use elevo_api as api;
use reqwest::{Body, Method};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use super::at::resolve_some;
use super::project_path;
use crate::errors::{Exit, Problem};
use crate::format::{count, first_line};
use crate::input;
use crate::merging::{self, Merging};
use crate::sandbox::absolute;
use crate::service::Call;
use crate::shapes;

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
    #[arg(long, value_name = "SNAPSHOT")]
    base: Option<String>,

    #[command(flatten)]
    how: Merging,
}

pub(super) fn apply(call: &mut Call, args: Apply) -> anyhow::Result<Exit> {
    let base = resolve_some(call, &args.name, args.base.as_ref())?;
    let bytes = input::bytes(&args.patch, LARGEST)?;
    let (patch, patch_base64) = match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(bytes) => (None, Some(shapes::base64(bytes.as_bytes()))),
    };
    let wish = api::Apply {
        base,
        patch,
        patch_base64,
        files: Vec::new(),
        merge: args.how.wish(),
    };
    let path = project_path(&args.name, &["apply"]);
    merging::merge(call, &path, &wish, "merging")
}

/// Replace files of a project with those of a directory, a repository or a tar.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("source").required(true),
    after_help = "\
Directories and repositories are on the server's machine; a tar is on this one.
Files that the project has at PATH and the source does not are removed. `.git`
and `.elevo` are never imported. From a directory, files that `.gitignore` names
are not imported either, unless the project already has them or its policy says
otherwise; from a tar they are. With --history, each commit of the first-parent
history becomes a step of the log.

Examples:
  elevo project import site --directory . --dry-run    show the changes only
  elevo project import site --directory .
  elevo project import site --git ~/src/site --revision v1.2 --history
  tar c docs | elevo project import site --tar - --path docs
  elevo project import site --snapshot \"$(elevo sandbox snapshot \"$id\")\""
)]
pub(super) struct Import {
    /// The project, by name or id
    name: String,

    /// A directory on the server's machine
    #[arg(long, value_name = "DIR", group = "source")]
    directory: Option<PathBuf>,

    /// A git repository on the server's machine
    #[arg(long, value_name = "REPO", group = "source")]
    git: Option<PathBuf>,

    /// Revision of the repository; by default HEAD
    #[arg(long, value_name = "REV", requires = "git")]
    revision: Option<String>,

    /// Import each commit as a step
    #[arg(long, requires = "git")]
    history: bool,

    /// A tar on this machine; - for standard input
    #[arg(long, value_name = "FILE", group = "source")]
    tar: Option<PathBuf>,

    /// Id of a snapshot
    #[arg(long, value_name = "ID", group = "source")]
    snapshot: Option<String>,

    /// Directory of the project to replace; the whole project by default
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Show what would be added, changed and removed, without importing
    #[arg(long)]
    dry_run: bool,

    /// Message that explains the import
    #[arg(
        short,
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "tar"
    )]
    message: String,
}

pub(super) fn import(call: &mut Call, args: Import) -> anyhow::Result<Exit> {
    if let Some(tar) = &args.tar {
        let into = args.path.as_deref().unwrap_or_default();
        let result = send_tar(call, &args.name, tar, into, args.dry_run)?;
        return imported(call, &result);
    }
    let wish = api::ImportSource {
        directory: args.directory.map(absolute).transpose()?,
        git: args.git.map(absolute).transpose()?,
        revision: args.revision,
        history: args.history,
        snapshot: args.snapshot,
        path: args.path,
        message: args.message,
        dry_run: args.dry_run,
    };
    let path = project_path(&args.name, &["import"]);
    let result: api::ImportResult = call.watch("importing", call.client.create(&path, &wish))?;
    imported(call, &result)
}

/// Bytes of an archive that are read at a time.
const PIECE: usize = 128 << 10;

fn send_tar(
    call: &Call,
    name: &str,
    tar: &PathBuf,
    into: &str,
    dry_run: bool,
) -> anyhow::Result<api::ImportResult> {
    let path = project_path(name, &["archive"]);
    let failed = |source| Problem::Io {
        action: "read",
        path: tar.clone(),
        source,
    };
    call.watch("importing", async {
        let mut file = match tar.as_os_str() == "-" {
            true => {
                let input = std::io::stdin().as_fd().try_clone_to_owned();
                tokio::fs::File::from_std(input.map_err(failed)?.into())
            }
            false => tokio::fs::File::open(tar).await.map_err(failed)?,
        };
        // Even an empty tar archive has bytes. Without any, the program that
        // wrote the archive has probably failed.
        let mut first = vec![0; 512];
        let length = file.read(&mut first).await.map_err(failed)?;
        first.truncate(length);
        if first.is_empty() {
            return Err(Problem::EmptyTar(tar.clone()).into());
        }
        let all = Cursor::new(first).chain(file);
        let body = Body::wrap_stream(ReaderStream::with_capacity(all, PIECE));
        let request = call.client.request(Method::PUT, &path);
        let request = request
            .query(&[("path", into)])
            .query(&[("dryRun", dry_run)])
            .header("content-type", "application/x-tar")
            .body(body);
        let answer = call.client.send(request).await?;
        let body = call.client.body(answer).await?;
        let result = serde_json::from_slice(&body);
        result.map_err(|error| anyhow::Error::from(crate::client::ClientError::Answer(error)))
    })
}

fn imported(call: &mut Call, result: &api::ImportResult) -> anyhow::Result<Exit> {
    if call.output.is_json() {
        call.output.value(result)?;
        return Ok(merging::exit(&result.merge));
    }
    if result.steps > 1 {
        let steps = count(result.steps, "step", "steps");
        call.output.line(format!("Added {steps} to the log"))?;
    }
    let code = merging::print(call, &result.merge)?;
    if !result.not_kept.is_empty() {
        let not_kept = result.not_kept.join(", ");
        call.note(&format!("not kept: {}", first_line(&not_kept)));
    }
    Ok(code)
}

/// Print files of a project as a tar archive, from the current or an earlier state.
#[derive(Debug, Args)]
#[command(after_help = "\
The archive is streamed, so the size of the project does not matter.

Examples:
  elevo project export site > site.tar
  elevo project export site docs --at 3 | tar x -C /tmp")]
pub(super) struct Export {
    /// The project, by name or id
    name: String,

    /// File or directory; the whole project by default
    path: Option<String>,

    /// State of the project; the newest by default
    #[arg(long, value_name = "SNAPSHOT")]
    at: Option<String>,
}

pub(super) fn export(call: &mut Call, args: &Export) -> anyhow::Result<()> {
    if call.output.is_terminal() {
        return Err(Problem::ArchiveToTerminal.into());
    }
    let at = resolve_some(call, &args.name, args.at.as_ref())?;
    let path = project_path(&args.name, &["archive"]);
    let request = call.client.request(Method::GET, &path);
    let request = request.query(&[("path", args.path.as_deref().unwrap_or_default())]);
    let request = match &at {
        Some(at) => request.query(&[("snapshot", at)]),
        None => request,
    };
    let mut answer = call.watch("reading", call.client.send(request))?;
    while let Some(piece) = call
        .wait(answer.chunk())
        .map_err(|error| call.client.lost(error))
        .context("the archive is incomplete")?
    {
        call.output.bytes(&piece)?;
    }
    Ok(())
}
