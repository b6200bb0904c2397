use std::path::PathBuf;

use clap::Args;
use elevo_store_local::LocalStore;
use serde_json::json;

use crate::errors::Problem;
use crate::format::path_text;
use crate::record::{RESERVED, hide_from_git};
use crate::session::Session;

/// Make an empty store.
#[derive(Debug, Args)]
#[command(after_help = "\
The store goes into `.elevo/store` in the directory, and keeps snapshots of it
or of any other. `.elevo` itself is never part of a snapshot, nor of a git
repository: it holds a `.gitignore` that names everything in it.

Examples:
  elevo state init                       for the current directory
  elevo state init ~/project             for another, which is made if need be
  elevo state init --store /data/store   a store by itself")]
pub(crate) struct Init {
    /// The directory to make it in; by default the current one
    directory: Option<PathBuf>,
}

pub(crate) fn run(session: &mut Session, args: Init) -> anyhow::Result<()> {
    let path = session.new_store(args.directory.as_deref())?;
    LocalStore::create(&path, &session.options())?;
    let path = path.canonicalize().unwrap_or(path);
    let reserved = path.parent().filter(|parent| parent.ends_with(RESERVED));
    if let Some(reserved) = reserved {
        hide_from_git(reserved).map_err(|source| Problem::Io {
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
        session
            .output
            .line(format!("Made an empty store in {shown}"))?;
    }
    if reserved.is_some() {
        session.note("`elevo state commit` keeps the directory as a first snapshot");
    }
    Ok(())
}
