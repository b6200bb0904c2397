use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Context;
use clap::Args;
use elevo_engine::Owner;
use elevo_lazy::{Options, mount};
use elevo_objects::SnapshotId;
use futures::executor::block_on;

use crate::local::snapshot_server::READY;
use crate::local::workspaces::WorkspaceCall;

/// Serve a snapshot as a directory until it is unmounted.
///
/// Started by the commands that create workspaces.
#[derive(Debug, Args)]
#[command(hide = true)]
pub(super) struct Serve {
    snapshot: SnapshotId,

    #[arg(value_name = "DIRECTORY")]
    at: PathBuf,

    /// Owner of the files
    #[arg(long, requires = "gid")]
    uid: Option<u32>,

    #[arg(long, requires = "uid")]
    gid: Option<u32>,
}

pub(super) fn run(call: &mut WorkspaceCall, args: &Serve) -> anyhow::Result<()> {
    let repository = call.session.view_of(&call.location)?.repository;
    let snapshot = block_on(repository.snapshot(args.snapshot))?;
    let me = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let owner = args.uid.zip(args.gid);
    // More threads than processors, because they wait for the disk.
    let threads = call.session.threads().max(8);
    let options = Options {
        for_all: me.0 == 0,
        unknown_time: SystemTime::now(),
        ..Options::new(owner.unwrap_or(me), threads)
    };
    let mount = mount(&repository, &snapshot, &args.at, options)
        .with_context(|| format!("cannot mount a snapshot on {}", args.at.display()))?;
    let mut out = io::stdout();
    writeln!(out, "{READY}")?;
    out.flush()?;
    let owner = owner.map(|(uid, gid)| Owner { uid, gid });
    let filling = std::thread::spawn({
        let (root, id) = (call.root.clone(), args.snapshot);
        move || {
            // Writes out the snapshot, so that the next workspace can use it as
            // a layer; if this fails, that workspace is served too. The
            // priority of this thread and its children is low, so that readers
            // come first.
            let _ = rustix::process::nice(19);
            elevo_workspace::write_out(&root, &repository, 1, id, owner)
        }
    });
    mount.join()?;
    // Do not wait: the next process that writes this snapshot deletes a
    // partial one.
    drop(filling);
    Ok(())
}
