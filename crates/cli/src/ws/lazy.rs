//! Snapshots that are served instead of written out, each by a process of this
//! program that outlives the call that needs it.

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

/// What it says when the directory is there.
const READY: &str = "ready";

/// Serve a snapshot as a directory until it is unmounted.
///
/// Started by what makes workspaces.
#[derive(Debug, Args)]
#[command(hide = true)]
pub(super) struct Serve {
    snapshot: SnapshotId,

    #[arg(value_name = "DIRECTORY")]
    at: PathBuf,

    /// Whose it is
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
    // They wait for the disk.
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
            // For the next workspace; without it that is served as well. Of this
            // thread and those that it starts: whoever reads comes first.
            let _ = rustix::process::nice(19);
            elevo_workspace::write_out(&root, &repository, 1, id, owner)
        }
    });
    mount.join()?;
    // What is half-written is cleared away by whoever writes it next.
    drop(filling);
    Ok(())
}

/// Starts those processes.
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
            // What ends this call does not end it.
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        if line.trim() == READY {
            // Somebody has to ask how it ended, if this process goes on for long.
            drop(child.stderr.take());
            std::thread::spawn(move || child.wait());
            return Ok(());
        }
        let ended = child.wait_with_output()?;
        Err(io::Error::other(in_one_line(&ended.stderr)))
    }
}

/// What another call of this program has said about its failure.
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
    fn a_failure_elsewhere_is_told_in_one_line() {
        let said = b"error: cannot mount\n  because: no device\n  help: buy one\n";
        assert_eq!(in_one_line(said), "cannot mount: no device");
        assert_eq!(in_one_line(b""), "");
    }
}
