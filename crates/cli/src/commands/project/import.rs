use std::io::Cursor;
use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use elevo_api as api;
use reqwest::{Body, Method};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use crate::client::paths::project_path;
use crate::client::{Call, merge};
use crate::errors::{Exit, FileProblem, ProjectProblem};
use crate::input::file::absolute_text;
use crate::output::format::{count, first_line};

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

pub(super) fn run(call: &mut Call, args: Import) -> anyhow::Result<Exit> {
    if let Some(tar) = &args.tar {
        let into = args.path.as_deref().unwrap_or_default();
        let result = send_tar(call, &args.name, tar, into, args.dry_run)?;
        return imported(call, &result);
    }
    let wish = api::ImportSource {
        directory: args.directory.map(absolute_text).transpose()?,
        git: args.git.map(absolute_text).transpose()?,
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
    let failed = |source| FileProblem::Io {
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
            return Err(ProjectProblem::EmptyTar(tar.clone()).into());
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
        return Ok(merge::merge_exit(&result.merge));
    }
    if result.steps > 1 {
        let steps = count(result.steps, "step", "steps");
        call.output.line(format!("Added {steps} to the log"))?;
    }
    let code = merge::print_merge(call, &result.merge)?;
    if !result.not_kept.is_empty() {
        let not_kept = result.not_kept.join(", ");
        call.note(&format!("not kept: {}", first_line(&not_kept)));
    }
    Ok(code)
}
