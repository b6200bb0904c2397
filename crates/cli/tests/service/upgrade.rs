//! A server is replaced by another version while its sandboxes run.
//!
//! `ELEVO_OLD_BINARY` names the binary of an earlier release. Without it, a copy
//! of the binary under test takes its place.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use elevo_testkit::binary::under_test;
use rustix::process::Signal;
use serde_json::Value;

use crate::server::{ELEVO, Server, agent, containers, docker};

/// Prints numbered lines until the file `stop` exists.
const COUNT: &str = "i=0; while [ ! -e stop ]; do echo $i; i=$((i+1)); sleep 0.01; done";

/// A server whose binary is replaced.
struct Installed {
    server: Server,
    binary: PathBuf,
}

impl Installed {
    /// Installs the old binary, and starts the server with it.
    fn old() -> Self {
        let server = Server::new();
        let mut installed = Self {
            binary: server.directory.path().join("elevo"),
            server,
        };
        installed.install(&under_test("ELEVO_OLD_BINARY", ELEVO.as_str()));
        installed.start(&agent());
        let image = elevo_testkit::docker::image();
        let create = ["template", "create", &image, "--name", "base"];
        installed.server.ok(create);
        installed
    }

    /// Replaces the binary in one step, as packages do.
    fn install(&self, from: &str) {
        let new = self.binary.with_extension("new");
        fs::copy(from, &new).unwrap();
        fs::rename(&new, &self.binary).unwrap();
    }

    fn start(&mut self, agent: &str) {
        let like = self.server.up_command();
        let mut command = Command::new(&self.binary);
        command.args(like.get_args()).env_clear();
        command.envs(
            like.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        // The streams that the tests leave open need not end by themselves.
        command.env("AGENT_BINARY", agent).env("STOP_GRACE", "2");
        self.server.up_by(command);
    }

    /// Installs the binary under test while the old server runs, and restarts
    /// the server with it.
    fn upgrade(&mut self, agent: &str) {
        self.install(ELEVO.as_str());
        assert!(self.server.end(Signal::TERM).success());
        self.start(agent);
    }

    /// Creates a workspace of the project with a file. Returns its id.
    fn workspace(&self, file: &str) -> String {
        let made = self
            .server
            .ok(["ws", "create", "--project", "site", "--json"]);
        let made: Value = serde_json::from_str(&made).unwrap();
        let path = Path::new(made["path"].as_str().unwrap()).join(file);
        fs::write(path, file).unwrap();
        made["id"].as_str().unwrap().to_owned()
    }
}

/// A command that keeps printing lines.
struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    fn new(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    fn take(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next().unwrap()).collect()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|n| n.to_string()).collect()
}

#[test]
fn commands_go_on_during_an_upgrade_and_no_output_is_lost_or_repeated() {
    let mut installed = Installed::old();
    let sandbox = installed.server.sandbox();
    let exec = ["exec", &sandbox, "--timeout", "0", "--", COUNT];
    let mut foreground = Following::new(installed.server.command(exec));
    let exec = ["exec", &sandbox, "--background", "--", COUNT];
    let background = installed.server.ok(exec);
    let background = background.trim_end();
    let mut printed = foreground.take(50);
    installed.upgrade(&agent());
    printed.extend(foreground.take(50));
    installed.server.ok(["exec", &sandbox, "--", "touch stop"]);
    while let Some(line) = foreground.next() {
        printed.push(line);
    }
    assert_eq!(printed, numbers(printed.len()));
    assert!(foreground.child.wait().unwrap().success());

    let attach = ["attach", &sandbox, background];
    let whole = installed.server.ok(attach);
    let count = whole.lines().count();
    assert!(count > 50, "only {count} lines");
    assert!(whole.lines().eq(numbers(count)), "{whole}");
    let offset = (whole.len() / 2).to_string();
    let rest = installed
        .server
        .ok(attach.into_iter().chain(["--offset", &offset]));
    assert_eq!(rest, whole[whole.len() / 2..]);
    installed.server.ok(["sandbox", "rm", &sandbox]);
}

#[test]
fn files_merges_and_events_are_intact_after_an_upgrade() {
    let mut installed = Installed::old();
    let server = &installed.server;
    server.ok(["project", "create", "site"]);
    let follow = [
        "events",
        "--follow",
        "--after",
        "0",
        "--project",
        "site",
        "--json",
    ];
    let mut events = Following::new(server.command(follow));
    let sandbox = server.sandbox();
    server.ok(["exec", &sandbox, "--", "echo before >file"]);
    let (merged, unmerged) = (installed.workspace("one"), installed.workspace("two"));
    server.ok(["ws", "merge", &merged]);
    let head = server.ok(["project", "log", "site", "--json"]);
    let mut seen = events.take(1);

    installed.upgrade(&agent());
    let server = &installed.server;
    assert_eq!(server.ok(["project", "log", "site", "--json"]), head);
    assert_eq!(server.ok(["exec", &sandbox, "--", "cat file"]), "before\n");
    let fork = server.ok(["sandbox", "fork", &sandbox]);
    let fork = fork.trim_end();
    assert_eq!(server.ok(["exec", fork, "--", "cat file"]), "before\n");
    server.ok(["ws", "merge", &unmerged]);
    for file in ["one", "two"] {
        assert_eq!(server.ok(["project", "cat", &format!("site:{file}")]), file);
    }
    seen.extend(events.take(1));
    let listed = server.ok(["events", "--project", "site", "--json"]);
    assert!(listed.lines().eq(seen), "{listed}");
    server.ok(["audit", "verify"]);
    server.ok(["sandbox", "rm", &sandbox, fork]);
}

#[test]
fn old_sandboxes_keep_their_agent_and_new_ones_get_the_new_agent() {
    let mut installed = Installed::old();
    let old = installed.server.sandbox();
    let old_container = containers(&installed.server.data());
    let old_size = fs::metadata(agent()).unwrap().len();
    // A byte after the end changes the file and not the program.
    let new_agent = installed.server.directory.path().join("agent");
    fs::copy(agent(), &new_agent).unwrap();
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(&new_agent)
        .unwrap();
    file.write_all(b"\n").unwrap();
    drop(file);
    installed.upgrade(new_agent.to_str().unwrap());
    let server = &installed.server;
    let new = server.sandbox();
    for sandbox in [&old, &new] {
        assert_eq!(server.ok(["exec", sandbox, "--", "echo ran"]), "ran\n");
    }
    let (before, after): (Vec<_>, Vec<_>) = containers(&server.data())
        .into_iter()
        .partition(|container| old_container.contains(container));
    assert_eq!(agent_size(&before[0]), old_size);
    assert_eq!(agent_size(&after[0]), old_size + 1);
    server.ok(["sandbox", "stop", &old]);
    server.ok(["sandbox", "start", &old]);
    assert_eq!(server.ok(["exec", &old, "--", "echo again"]), "again\n");
    let all = containers(&server.data());
    let sizes: Vec<_> = all.iter().map(|container| agent_size(container)).collect();
    assert_eq!(sizes, [old_size + 1; 2]);
    server.ok(["sandbox", "rm", &old, &new]);
}

/// Returns the size of the program that is process 1 of a container.
fn agent_size(container: &str) -> u64 {
    let pid = docker(&["inspect", "--format", "{{.State.Pid}}", container]);
    let program = format!("/proc/{}/exe", pid.trim_end());
    fs::metadata(program).unwrap().len()
}
