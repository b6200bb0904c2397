use std::path::PathBuf;

use clap::Args;

use crate::client::Call;
use crate::client::import::{ImportOptions, Source, import, print_import};
use crate::client::names::{Noun, find};
use crate::errors::Exit;

/// Replace files of a project with those of a directory, a repository or a tar.
#[derive(Debug, Args)]
#[command(after_help = "\
SRC is a directory, a tar (- for standard input), a git repository or the id of
a snapshot. A file is a tar, on this machine. A directory is imported as it is,
unless --git imports the commit of its repository, or it is a bare repository.
Directories and repositories are on the server's machine.

Files that the project has at PATH and the source does not are removed. `.git`
and `.elevo` are never imported. From a directory, files that `.gitignore` names
are not imported either, unless the project already has them or its policy says
otherwise; from a tar they are. With --history, each commit of the first-parent
history becomes a step of the log.

Examples:
  elevo project import site . --dry-run                show the changes only
  elevo project import site .
  elevo project import site ~/src/site --revision v1.2 --history
  tar c docs | elevo project import site - --path docs
  elevo project import site \"$(elevo sandbox snapshot \"$id\")\"")]
pub(super) struct Import {
    /// The project, by name or id
    name: String,

    /// The source
    #[arg(value_name = "SRC")]
    source: PathBuf,

    /// Import from the git repository at SRC, not from its directory
    #[arg(long)]
    git: bool,

    /// Revision of the git repository; by default HEAD
    #[arg(long, value_name = "REV")]
    revision: Option<String>,

    /// Import each commit of the git repository as a step
    #[arg(long)]
    history: bool,

    /// Directory of the project to replace; the whole project by default
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Show what would be added, changed and removed, without importing
    #[arg(long)]
    dry_run: bool,

    /// Message that explains the import; a tar has none
    #[arg(
        short,
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    message: String,
}

pub(super) fn run(call: &mut Call, args: Import) -> anyhow::Result<Exit> {
    let is_git = args.git || args.history || args.revision.is_some();
    let source = match is_git {
        true => Source::Git(args.source),
        false => Source::parse(args.source),
    };
    let project = find(call, Noun::Project, &args.name)?;
    let options = ImportOptions {
        revision: args.revision,
        history: args.history,
        path: args.path,
        dry_run: args.dry_run,
        message: args.message,
    };
    let result = import(call, &project, source, options)?;
    print_import(call, &result)
}
