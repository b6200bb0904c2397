//! Files into a project without a workspace, and out of it.

use std::io::Cursor;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{ArgGroup, Args};
use elevo_api as api;
use reqwest::{Body, Method};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use super::at::resolve_some;
use super::project_path;
use crate::errors::Problem;
use crate::format::{count, first_line};
use crate::input;
use crate::merging::{self, Merging};
use crate::sandbox::absolute;
use crate::service::Call;
use crate::shapes;

/// A patch that is sent has at most this many bytes: the server takes no more.
const LARGEST: u64 = 32 << 20;

/// Change files of a project by a patch.
#[derive(Debug, Args)]
#[command(after_help = "\
The patch is one as `git diff` writes it, and fits to the byte or is refused.
What has landed since --base is merged with it. Ends as `elevo ws merge` does.

Examples:
  git diff | elevo project apply site -
  elevo project apply site fix.patch --base 3 -m \"a fix\"
  elevo project apply site fix.patch --dry-run")]
pub(super) struct Apply {
    /// The project, by name or id
    name: String,

    /// The patch; - for standard input
    patch: PathBuf,

    /// The state that the patch was made of; the newest by default
    #[arg(long, value_name = "SNAPSHOT")]
    base: Option<String>,

    #[command(flatten)]
    how: Merging,
}

pub(super) fn apply(call: &mut Call, args: Apply) -> anyhow::Result<ExitCode> {
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

/// Replace files of a project by those of a directory, a repository or a tar.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("source").required(true),
    after_help = "\
Directories and repositories are those of the server's machine; a tar comes from
here. What the project had at that place and the source does not is removed.
`.git` and `.elevo` never come in. Of a directory, neither does what `.gitignore`
files name, unless the project has it already or its policy says otherwise; a tar
brings it. With --history each commit on the first-parent history becomes a step
of the log.

Examples:
  elevo project import site --directory . --dry-run    what would change
  elevo project import site --directory .
  elevo project import site --git ~/src/site --revision v1.2 --history
  tar c docs | elevo project import site --tar - --path docs
  elevo project import site --snapshot \"$(elevo sandbox snapshot \"$id\")\""
)]
pub(super) struct Import {
    /// The project, by name or id
    name: String,

    /// A directory of the server's machine
    #[arg(long, value_name = "DIR", group = "source")]
    directory: Option<PathBuf>,

    /// A git repository on the server's machine
    #[arg(long, value_name = "REPO", group = "source")]
    git: Option<PathBuf>,

    /// What of the repository; by default HEAD
    #[arg(long, value_name = "REV", requires = "git")]
    revision: Option<String>,

    /// Each of its commits as a step
    #[arg(long, requires = "git")]
    history: bool,

    /// A tar on this machine; - for standard input
    #[arg(long, value_name = "FILE", group = "source")]
    tar: Option<PathBuf>,

    /// A snapshot
    #[arg(long, value_name = "ID", group = "source")]
    snapshot: Option<String>,

    /// The directory of the project that is replaced; all of it by default
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Only say what would be added, changed and removed
    #[arg(long)]
    dry_run: bool,

    /// Why
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

pub(super) fn import(call: &mut Call, args: Import) -> anyhow::Result<ExitCode> {
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

/// As much of a tar is read at once.
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
        // What wrote it may have failed: nothing is no tar, not even an empty one.
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

fn imported(call: &mut Call, result: &api::ImportResult) -> anyhow::Result<ExitCode> {
    if call.output.is_json() {
        call.output.value(result)?;
        return Ok(merging::exit(&result.merge));
    }
    if result.steps > 1 {
        let steps = count(result.steps, "step", "steps");
        call.output.line(format!("The log has {steps} more"))?;
    }
    let code = merging::print(call, &result.merge)?;
    if !result.not_kept.is_empty() {
        let not_kept = result.not_kept.join(", ");
        call.note(&format!("not kept: {}", first_line(&not_kept)));
    }
    Ok(code)
}

/// Print files of a project as a tar, as they are or were.
#[derive(Debug, Args)]
#[command(after_help = "\
The tar comes as it is made, whatever the size of the project.

Examples:
  elevo project export site > site.tar
  elevo project export site docs --at 3 | tar x -C /tmp")]
pub(super) struct Export {
    /// The project, by name or id
    name: String,

    /// The file or directory; all of the project by default
    path: Option<String>,

    /// A state of the project; the newest by default
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
        .context("the archive broke off")?
    {
        call.output.bytes(&piece)?;
    }
    Ok(())
}
