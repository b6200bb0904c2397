use std::path::{Path, PathBuf};

use clap::Args;
use elevo_store_local::LocalStore;
use serde_json::json;

use crate::errors::FileProblem;
use crate::local::checkout_record::hide_from_git;
use crate::local::layout::RESERVED;
use crate::local::session::Session;
use crate::local::store_location::Around;
use crate::output::format::path_text;

/// Create an empty store.
#[derive(Debug, Args)]
#[command(after_help = "\
The store is created in `.elevo/store` in the directory, and can have snapshots
of this or any other directory. `.elevo` itself is never part of a snapshot, nor
of a git repository: it has a `.gitignore` that names everything in it.

Examples:
  elevo init                       for the current directory
  elevo init ~/project             for another, created if necessary
  elevo init --store /data/store   without a working directory")]
pub(crate) struct Init {
    /// Directory for the store; by default the current one
    directory: Option<PathBuf>,
}

pub(crate) fn run(session: &mut Session, args: Init) -> anyhow::Result<()> {
    let path = session.new_store(args.directory.as_deref())?;
    let outer = outer_working(&path);
    LocalStore::create(&path, &session.options())?;
    let path = path.canonicalize().unwrap_or(path);
    let reserved = path.parent().filter(|parent| parent.ends_with(RESERVED));
    if let Some(reserved) = reserved {
        hide_from_git(reserved).map_err(|source| FileProblem::Io {
            action: "write to",
            path: reserved.into(),
            source,
        })?;
    }
    if session.output.is_json() {
        let shown = path.to_string_lossy();
        session.output.value(&json!({ "store": shown }))?;
    } else {
        let shown = path_text(path.as_os_str().as_encoded_bytes());
        session.confirm(&format!("Created an empty store in {shown}"))?;
    }
    if let Some(outer) = outer {
        session.note(&format!(
            "{} is a working directory too; its snapshots contain the files here, but not this \
             store",
            outer.display()
        ));
    }
    if reserved.is_some() {
        session.note("`elevo commit` saves the directory as the first snapshot");
    }
    Ok(())
}

/// Returns the working directory that contains the working directory of a new
/// store.
fn outer_working(store: &Path) -> Option<PathBuf> {
    let reserved = store.parent().filter(|parent| parent.ends_with(RESERVED))?;
    let above = reserved.parent()?.canonicalize().ok()?;
    match Around::of(above.parent()?) {
        Around::Working(outer) => Some(outer),
        Around::Workspace(_) | Around::Nothing => None,
    }
}
