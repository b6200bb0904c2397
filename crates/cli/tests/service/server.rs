//! A separate server for each test, which cleans up after itself.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

use elevo_testkit::binary::under_test;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The binary under test; `ELEVO_BINARY` overrides it.
pub(crate) static ELEVO: LazyLock<String> =
    LazyLock::new(|| under_test("ELEVO_BINARY", env!("CARGO_BIN_EXE_elevo")));

/// A process of `elevo server run`, and a directory to work in.
pub(crate) struct Server {
    up: Option<Child>,
    pub(crate) directory: TempDir,
}

/// The exit code and output of a command.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it was not killed"),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Returns the output of a command that must have succeeded.
    pub(crate) fn text(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        String::from_utf8(self.stdout).unwrap()
    }

    /// The name of the error, which was printed as JSON.
    pub(crate) fn name(&self) -> String {
        let error: Value = serde_json::from_str(&self.stderr).expect(&self.stderr);
        error["error"]["name"].as_str().unwrap().to_owned()
    }
}

fn needed(name: &str, how: &str) -> String {
    let value = std::env::var(name).unwrap_or_default();
    assert!(!value.is_empty(), "{name} is not set: run\n    {how}");
    value
}

pub(crate) fn agent() -> String {
    needed("ELEVO_AGENT", "export ELEVO_AGENT=$(scripts/agent)")
}

/// `elevo`, without environment variables that affect it.
pub(crate) fn elevo() -> Command {
    let mut command = Command::new(ELEVO.as_str());
    command.env_clear().stdin(Stdio::null());
    for name in ["PATH", "TERM", "HOME"] {
        command.env(name, std::env::var_os(name).unwrap_or_default());
    }
    // Without contexts of the user who runs the tests.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

impl Server {
    /// Starts a server with the template `base`.
    pub(crate) fn start() -> Self {
        let mut server = Self::new();
        server.up();
        let image = elevo_testkit::docker::image();
        let add = ["template", "create", &image, "--name", "base"];
        server.ok(add);
        server
    }

    /// Creates a server that is not started.
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("elevo-up-").tempdir();
        Self {
            up: None,
            directory: directory.unwrap(),
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// `elevo server run`, not started yet.
    pub(crate) fn up_command(&self) -> Command {
        self.up_command_at("0")
    }

    /// `elevo server run` with a port, not started yet.
    pub(crate) fn up_command_at(&self, port: &str) -> Command {
        self.start_command(&["server", "run"], port)
    }

    /// A command that starts the server, not run yet.
    pub(crate) fn start_command(&self, words: &[&str], port: &str) -> Command {
        let mut command = elevo();
        command
            .args(words)
            .args(["--port", port, "--metrics-port", "0", "--json"])
            .args(["--network", "none"])
            .arg("--data")
            .arg(self.data())
            .env("DOCKER_HOST", elevo_testkit::docker::host())
            .env("AGENT_BINARY", agent())
            .env("POOL_SIZE", "4g")
            .env("DEFAULT_DISK", "256m")
            .env("DEFAULT_MEMORY", "256m");
        command
    }

    /// Starts the server, and waits until it prints its address.
    pub(crate) fn up(&mut self) -> Value {
        let command = self.up_command();
        self.up_by(command)
    }

    /// Starts the server with this command.
    pub(crate) fn up_by(&mut self, mut command: Command) -> Value {
        let mut up = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stdout = up.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        self.up = Some(up);
        serde_json::from_str(&line).expect("the server prints its address")
    }

    /// Sends a signal to the server, and waits for its end.
    pub(crate) fn end(&mut self, signal: Signal) -> std::process::ExitStatus {
        let mut up = self.up.take().unwrap();
        kill_process(Pid::from_child(&up), signal).unwrap();
        up.wait().unwrap()
    }

    /// A command that uses this server.
    pub(crate) fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = elevo();
        command
            .args(args)
            .env("ELEVO_DATA", self.data())
            .current_dir(self.directory.path());
        command
    }

    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Ended {
        Ended::new(self.command(args).output().unwrap())
    }

    pub(crate) fn ok<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        self.run(args).text()
    }

    /// Runs a command with standard input.
    pub(crate) fn feed<'a>(&self, args: impl IntoIterator<Item = &'a str>, input: &[u8]) -> Ended {
        let mut command = self.command(args);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeding = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let ended = Ended::new(child.wait_with_output().unwrap());
        feeding.join().unwrap();
        ended
    }

    /// Creates a sandbox. Returns its id.
    pub(crate) fn sandbox(&self) -> String {
        let id = self.ok(["sandbox", "create", "--timeout", "600"]);
        assert!(id.starts_with("sbx-") && id.ends_with('\n'), "{id:?}");
        id.trim_end().to_owned()
    }

    pub(crate) fn write(&self, path: &str, text: &[u8]) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.directory.path().join(path)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut up) = self.up.take() {
            let _ = up.kill();
            let _ = up.wait();
        }
        if self.data().join("server.lock").exists() {
            // A server in the background; without one the command fails.
            let _ = self.command(["down", "--now"]).output();
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.data().join("server.log")).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(20)..];
            eprintln!("the server's log ends with:\n{}", last.join("\n"));
        }
        for container in containers(&self.data()) {
            docker(&["rm", "--force", &container]);
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let ours = points.filter(|point| Path::new(point).starts_with(self.data()));
        for mount in ours.collect::<Vec<_>>().into_iter().rev() {
            let _ = Command::new("umount").args(["-l", mount]).status();
        }
    }
}

/// Containers that mount files in a directory.
pub(crate) fn containers(data: &Path) -> Vec<String> {
    let all = docker(&["ps", "--all", "--quiet", "--filter", "label=elevo.server"]);
    let is_ours = |id: &&str| {
        let mounts = docker(&["inspect", "--format", "{{json .Mounts}}", id]);
        mounts.contains(data.to_str().unwrap_or_default())
    };
    all.lines().filter(is_ours).map(str::to_owned).collect()
}

pub(crate) fn docker(args: &[&str]) -> String {
    let mut command = Command::new("docker");
    command.env("DOCKER_HOST", elevo_testkit::docker::host());
    let output = command.args(args).output();
    output.map_or(String::new(), |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}
