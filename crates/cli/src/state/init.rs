use std::path::PathBuf;

use clap::Args;
use elevo_store_local::LocalStore;
use serde_json::json;

use crate::errors::Problem;
use crate::format::path_text;
use crate::record::RESERVED;
use crate::session::{Session, store_in};

/// Make an empty store.
#[derive(Debug, Args)]
#[command(after_help = "\
The store goes into `.elevo/store` in the directory, and keeps snapshots of it
or of any other. `.elevo` itself is never part of a snapshot.

Examples:
  elevo state init                       for the current directory
  elevo state init ~/project             for another, which is made if need be
  elevo state init --store /data/store   a store by itself")]
pub(crate) struct Init {
    /// The directory to make it in; by default the current one
    directory: Option<PathBuf>,
}

pub(crate) fn run(session: &mut Session, args: Init) -> anyhow::Result<()> {
    let named = session.global.store.clone();
    let path = match (args.directory, named) {
        (Some(directory), _) => store_in(&session.path(&directory)),
        (None, Some(store)) => session.path(&store),
        (None, None) => store_in(session.here()),
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|source| Problem::Io {
            action: "create",
            path: parent.into(),
            source,
        })?;
    }
    LocalStore::create(&path, &session.options())?;
    let path = path.canonicalize().unwrap_or(path);
    if session.output.is_json() {
        let shown = path.to_string_lossy();
        session.output.value(&json!({ "store": shown }))?;
    } else {
        let shown = path_text(path.as_os_str().as_encoded_bytes());
        session
            .output
            .line(format!("Made an empty store in {shown}"))?;
    }
    if path
        .parent()
        .is_some_and(|parent| parent.ends_with(RESERVED))
    {
        session.note("`elevo state commit` keeps the directory as a first snapshot");
    }
    Ok(())
}
