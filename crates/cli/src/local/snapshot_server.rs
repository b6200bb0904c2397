//! Serves snapshots as file systems instead of writing them out. Each snapshot
//! has its own process of this program, which outlives the command that started
//! it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use elevo_engine::Owner;
use elevo_objects::SnapshotId;
use elevo_workspace::LazyServer;

/// The line that the process prints once the directory is mounted.
pub(crate) const READY: &str = "ready";

/// Starts a process for each served snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotProcesses {
    pub(crate) program: PathBuf,
    pub(crate) store: PathBuf,
    pub(crate) workspaces: PathBuf,
}

impl LazyServer for SnapshotProcesses {
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
            // The new process has its own group, so that a signal to the group
            // of this process does not end it.
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        if line.trim() == READY {
            // Reaps the new process when it ends, because this process may run
            // for long.
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
