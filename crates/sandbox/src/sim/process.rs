//! The host processes that simulate containers.

#![allow(
    clippy::disallowed_methods,
    reason = "the simulated engine stamps output with the time, as an engine does"
)]

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use elevo_core::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::SimEngine;
use crate::error::{Error, Result};
use crate::spec::ContainerSpec;

/// The environment variable that every process of a container inherits.
const VARIABLE: &str = "ELEVO_SIM_CONTAINER";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Pause between two checks for processes that have not ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Finds the processes of a container by a variable in their environment, which
/// a process keeps even if it left its group or its parent. The first process is
/// known by its pid: the agent hides its environment.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    variable: String,
    /// The first process of the container, while it runs.
    pub(super) first: Option<Pid>,
}

impl Mark {
    pub(super) fn new(id: &str) -> Self {
        // The process id distinguishes the engines of several test processes,
        // whose containers may have the same ids.
        Self {
            variable: format!("{VARIABLE}={id}-{}", std::process::id()),
            first: None,
        }
    }

    fn value(&self) -> &str {
        self.variable.split_once('=').map_or("", |(_, value)| value)
    }

    /// Returns the processes, the first one of the container first: a container
    /// that is killed loses it before the others, so that an agent reports no
    /// ends of commands.
    pub(super) fn processes(&self) -> Vec<Pid> {
        let others = self.marked().into_iter();
        let others = others.filter(|pid| Some(*pid) != self.first);
        self.first.into_iter().chain(others).collect()
    }

    fn marked(&self) -> Vec<Pid> {
        let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| self.is_on(*pid))
            .filter_map(Pid::from_raw)
            .collect()
    }

    fn is_on(&self, pid: i32) -> bool {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == self.variable.as_bytes())
    }

    pub(super) fn signal_all(&self, signal: Signal) {
        for pid in self.processes() {
            // The process may have ended.
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills every process, including processes that are started during the
    /// call.
    pub(super) async fn kill_all(&self) {
        self.signal_all(Signal::KILL);
        while !self.marked().is_empty() {
            self.signal_all(Signal::KILL);
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns the bytes of memory that the processes use.
    pub(super) fn memory(&self) -> u64 {
        let pages = |pid: &Pid| -> Option<u64> {
            let path = format!("/proc/{}/statm", pid.as_raw_nonzero());
            let text = std::fs::read_to_string(path).ok()?;
            text.split(' ').nth(1)?.parse().ok()
        };
        self.processes().iter().filter_map(pages).sum::<u64>() * 4096
    }
}

pub(super) fn now() -> SystemTime {
    SystemTime::now()
}

/// Starts the command of a container.
pub(super) fn spawn(spec: &ContainerSpec, mark: &Mark) -> Result<Child> {
    let (program, arguments) = match spec.command.split_first() {
        Some((program, arguments)) => (program, arguments),
        None => return Err(Error::refused("command", "the command is empty")),
    };
    let mut command = Command::new(on_host(spec, program));
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env(VARIABLE, mark.value())
        .current_dir(on_host(spec, &spec.working_dir))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Files belong to the user of the sandbox, as they do in a container.
    if rustix::process::geteuid().is_root() {
        command.uid(spec.user.uid).gid(spec.user.gid);
    }
    for (name, value) in &spec.env {
        command.env(name, value_on_host(spec, value));
    }
    command.spawn().map_err(|error| Error::NotRunnable {
        image: spec.image.clone(),
        message: format!("exec: {program}: {error}"),
    })
}

/// Records the output and the end of a command.
pub(super) fn follow(engine: &SimEngine, name: String, starts: u64, mut child: Child) {
    let outputs = [
        child.stdout.take().map(|pipe| Box::new(pipe) as Pipe),
        child.stderr.take().map(|pipe| Box::new(pipe) as Pipe),
    ];
    let tasks = engine.tasks();
    let readers: Vec<_> = outputs
        .into_iter()
        .flatten()
        .map(|pipe| tasks.spawn(read(engine.weak(), name.clone(), pipe)))
        .collect();
    let engine = engine.weak();
    tasks.spawn(async move {
        let ended = child.wait().await;
        // A process that outlives the command keeps its output open, so the end
        // of the command counts, not the end of its output. The command's own
        // output is in the pipe by now.
        for reader in readers {
            let _ = tokio::time::timeout(Duration::from_secs(1), reader).await;
        }
        if let Some(engine) = engine() {
            engine.note_end(&name, starts, code(ended));
        }
    });
}

type Pipe = Box<dyn AsyncRead + Send + Unpin>;

async fn read(engine: impl Fn() -> Option<SimEngine>, name: String, mut pipe: Pipe) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        let Some(engine) = engine() else { return };
        engine.note_output(&name, Bytes::copy_from_slice(&buffer[..read]));
    }
}

fn code(ended: io::Result<std::process::ExitStatus>) -> i64 {
    use std::os::unix::process::ExitStatusExt;
    let Ok(status) = ended else { return -1 };
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(-1).into()
}

/// Returns the path on the host of a path in the container.
pub(super) fn on_host(spec: &ContainerSpec, path: &str) -> PathBuf {
    let below = spec.mounts.iter().filter_map(|mount| {
        let rest = Path::new(path).strip_prefix(&mount.target).ok()?;
        Some((mount.target.len(), mount.host.join(rest)))
    });
    let deepest = below.max_by_key(|(length, _)| *length);
    deepest.map_or_else(|| path.into(), |(_, path)| path)
}

/// Returns the value of an environment variable, with a container path replaced
/// by the path on the host.
fn value_on_host(spec: &ContainerSpec, value: &str) -> String {
    let (scheme, path) = match value.strip_prefix("unix://") {
        Some(path) => ("unix://", path),
        None => ("", value),
    };
    match path.starts_with('/') {
        true => format!("{scheme}{}", on_host(spec, path).display()),
        false => value.to_owned(),
    }
}

/// Returns the lines of a log that were written from `since` to before `until`,
/// in whole seconds.
pub(super) fn lines_between(
    log: &[(SystemTime, Bytes)],
    since: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Vec<Bytes> {
    let second = |time: &SystemTime| {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        since_epoch.as_secs().cast_signed()
    };
    let wanted = log.iter().filter(|(time, _)| {
        since.is_none_or(|since| second(time) >= since.seconds())
            && until.is_none_or(|until| second(time) < until.seconds())
    });
    let bytes: Vec<u8> = wanted.flat_map(|(_, piece)| piece.to_vec()).collect();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(Bytes::copy_from_slice).collect()
}
