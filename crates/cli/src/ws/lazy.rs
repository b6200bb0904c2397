//! Snapshots that are served as a file system instead of written out. Each has a
//! process of this program that outlives the command that started it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::Context;
use clap::Args;
use elevo_engine::Owner;
use elevo_lazy::{Options, mount};
use elevo_objects::SnapshotId;
use elevo_workspace::LazyServer;
use futures::executor::block_on;

use super::Call;

/// The line that the process prints once the directory is mounted.
const READY: &str = "ready";

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

pub(super) fn serve(call: &mut Call, args: &Serve) -> anyhow::Result<()> {
    let repository = call.session.view_of(&call.place)?.repository;
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
            // Write out the snapshot for the next workspace; if this fails, that
            // one is served too. The priority of this thread and its children is
            // low, so that readers come first.
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

/// Starts a process for each served snapshot.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) program: PathBuf,
    pub(super) store: PathBuf,
    pub(super) workspaces: PathBuf,
}

impl LazyServer for Processes {
    fn serve(&self, snapshot: SnapshotId, at: &Path, owner: Option<Owner>) -> io::Result<()> {
        let mut arguments: Vec<OsString> = vec!["ws".into(), "serve".into()];
        arguments.extend(["--store".into(), self.store.clone().into()]);
        arguments.extend(["--workspaces".into(), self.workspaces.clone().into()]);
        if let Some(Owner { uid, gid }) = owner {
            arguments.extend([format!("--uid={uid}").into(), format!("--gid={gid}").into()]);
        }
        arguments.extend([snapshot.to_string().into(), at.into()]);
        let mut child = Command::new(&self.program)
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal to the group of this process must not end it.
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        if line.trim() == READY {
            // Reap the process when it ends, in case this one runs for long.
            drop(child.stderr.take());
            std::thread::spawn(move || child.wait());
            return Ok(());
        }
        let ended = child.wait_with_output()?;
        Err(io::Error::other(in_one_line(&ended.stderr)))
    }
}

/// Joins the error messages that another process of this program printed.
fn in_one_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let reasons = said.lines().filter_map(|line| {
        let line = line.trim();
        let reason = line.strip_prefix("error: ");
        reason.or_else(|| line.strip_prefix("because: "))
    });
    reasons.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_another_process_is_shown_in_one_line() {
        let said = b"error: cannot mount\n  because: no device\n  help: buy one\n";
        assert_eq!(in_one_line(said), "cannot mount: no device");
        assert_eq!(in_one_line(b""), "");
    }
}
