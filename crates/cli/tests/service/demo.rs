//! `elevo demo`: its steps, and that it leaves nothing behind however it ends.

use std::fs;
use std::io::{BufRead, BufReader, PipeReader, Read, Write, pipe};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use elevo_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::server::{Ended, agent, containers, elevo};

/// A directory for the temporary files of a demo.
fn directory() -> TempDir {
    let directory = tempfile::Builder::new().prefix("elevo-test-").tempdir();
    directory.unwrap()
}

fn demo(directory: &Path, args: &[&str]) -> Command {
    let mut command = elevo();
    command
        .arg("demo")
        .args(args)
        .env("TMPDIR", directory)
        .env("DOCKER_HOST", elevo_testkit::docker::host())
        .env("AGENT_BINARY", agent());
    command
}

/// The files of a release, with a small image as its template.
fn release() -> TempDir {
    let share = directory();
    let archive = share.path().join("images/busybox.tar.zst");
    fs::create_dir(archive.parent().unwrap()).unwrap();
    let mut save = Command::new("docker");
    save.env("DOCKER_HOST", elevo_testkit::docker::host());
    save.args(["save", &elevo_testkit::docker::tiny_image()]);
    // The server recognizes an archive that is not compressed.
    let saved = save.stdout(fs::File::create(archive).unwrap()).status();
    assert!(saved.unwrap().success());
    share
}

fn steps(output: &str) -> Vec<Value> {
    let lines = output.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The result of the last step of a name.
fn result<'a>(steps: &'a [Value], name: &str) -> Vec<&'a str> {
    let step = steps.iter().rfind(|step| step["step"] == name).unwrap();
    let lines = step["result"].as_array().unwrap().iter();
    lines.map(|line| line.as_str().unwrap()).collect()
}

/// Checks that a demo has left no file, mount, process or container.
fn assert_nothing_left(directory: &Path) {
    let names = fs::read_dir(directory).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
    assert!(names.is_empty(), "{names:?}");
    let path = directory.to_str().unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts: Vec<_> = mounts.lines().filter(|line| line.contains(path)).collect();
    assert!(mounts.is_empty(), "{mounts:?}");
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let command = fs::read(entry.unwrap().path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).into_owned();
        command.contains(path).then_some(command)
    });
    let processes: Vec<_> = processes.collect();
    assert!(processes.is_empty(), "{processes:?}");
    let containers = containers(directory);
    assert!(containers.is_empty(), "{containers:?}");
}

fn assert_the_story(steps: &[Value]) {
    let names: Vec<_> = steps
        .iter()
        .map(|it| it["step"].as_str().unwrap())
        .collect();
    let expected = "start project agents create create create exec exec exec fork exec \
                    merge merge merge review accept log blame end";
    assert_eq!(names.join(" "), expected);
    assert_eq!(result(steps, "exec"), ["Mon-Fri 9-17", "Sat 10-14"]);
    let sides = result(steps, "review");
    assert_eq!(sides[1], "the project  coffee 3.20");
    assert_eq!(sides[2], "cleo         coffee 2.90");
    assert_eq!(result(steps, "log").len(), 4);
    let blame = result(steps, "blame");
    assert_eq!(blame[2], " 4  cleo  coffee 2.90");
}

#[test]
fn three_agents_share_a_project_in_sandboxes() {
    let directory = directory();
    let share = release();
    let mut command = demo(directory.path(), &["--json"]);
    command.env("SHARE_DIR", share.path());
    // Settings of another server must not apply.
    let elsewhere = directory.path().join("elsewhere");
    command.env("WORKSPACE_ROOT", &elsewhere);
    command.env("API_PORT", "1").env("ELEVO_DATA", &elsewhere);
    let shown = Ended::new(command.output().unwrap()).text();
    assert_the_story(&steps(&shown));
    assert!(shown.contains("elevo sandbox create busybox --name ann"));
    assert_nothing_left(directory.path());
}

#[test]
fn three_agents_share_a_project_in_directories() {
    let directory = directory();
    let mut command = demo(directory.path(), &["--no-sandbox", "--json"]);
    command.env_remove("AGENT_BINARY").env_remove("DOCKER_HOST");
    let shown = Ended::new(command.output().unwrap()).text();
    assert_the_story(&steps(&shown));
    assert_nothing_left(directory.path());
}

#[test]
fn without_an_engine_the_agents_work_in_directories() {
    let directory = directory();
    let mut command = demo(directory.path(), &[]);
    command.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let ended = Ended::new(command.output().unwrap());
    let note = "the container engine at unix:///nowhere/docker.sock does not respond";
    assert!(ended.stderr.contains(note), "{}", ended.stderr);
    let shown = ended.text();
    for line in [
        "$ elevo project create shop --from ./shop",
        "$ ann=$(elevo ws create ann --project shop --agent ann)",
        "$ elevo ws merge ann -m \"open on Saturday\"",
        "    landed as step 2: hours.txt",
        "$ elevo project blame shop prices.txt",
        "No process, mount, container or file is left.",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert_nothing_left(directory.path());

    let mut command = demo(directory.path(), &["--template", "any", "--json"]);
    command.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let refused = Ended::new(command.output().unwrap());
    assert_eq!(refused.name(), "engine_unavailable", "{}", refused.stderr);
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let directory = directory();
    // The server does not start.
    let mut command = demo(directory.path(), &["--no-sandbox", "--json"]);
    command.env("AGENT_BINARY", "/nonexistent");
    let ended = Ended::new(command.output().unwrap());
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("/nonexistent"), "{}", ended.stderr);
    assert_nothing_left(directory.path());
    // The built-in image is missing.
    let mut command = demo(directory.path(), &["--json"]);
    command.env("SHARE_DIR", "/nonexistent");
    let ended = Ended::new(command.output().unwrap());
    assert_eq!(ended.name(), "template_not_found", "{}", ended.stderr);
    assert!(ended.stderr.contains("--no-sandbox"), "{}", ended.stderr);
    assert_nothing_left(directory.path());
}

#[test]
fn a_closed_output_leaves_nothing_behind() {
    let directory = directory();
    let mut command = demo(directory.path(), &["--no-sandbox", "--json"]);
    let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = running.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert!(line.contains("start"), "{line}");
    assert!(running.wait().unwrap().success());
    assert_nothing_left(directory.path());
}

#[test]
fn a_signal_during_the_start_leaves_nothing_behind() {
    let directory = directory();
    let running = Blocked::start(demo(directory.path(), &["--no-sandbox", "--json"]), 0);
    wait::until("the server starts", || {
        let mut found = fs::read_dir(directory.path()).unwrap();
        let is_starting = |path: &Path| path.join("data/server.lock").exists();
        let found = found.any(|entry| is_starting(&entry.unwrap().path()));
        found.then_some(())
    });
    running.end(Signal::INT);
    assert_nothing_left(directory.path());
}

#[test]
fn a_signal_in_the_middle_leaves_nothing_behind() {
    let directory = directory();
    let image = elevo_testkit::docker::tiny_image();
    // The demo has three sandboxes, and then four with the fork.
    for (count, bytes, signal) in [
        (1, 800, Signal::TERM),
        (3, 1200, Signal::INT),
        (4, 1600, Signal::HUP),
    ] {
        let command = demo(directory.path(), &["--json", "--template", &image]);
        let running = Blocked::start(command, bytes);
        wait::until("the sandboxes", || {
            (containers(directory.path()).len() >= count).then_some(())
        });
        running.end(signal);
        assert_nothing_left(directory.path());
    }
}

#[test]
fn a_killed_server_leaves_nothing_behind() {
    let directory = directory();
    let image = elevo_testkit::docker::tiny_image();
    let command = demo(directory.path(), &["--json", "--template", &image]);
    let running = Blocked::start(command, 800);
    wait::until("a sandbox", || {
        (!containers(directory.path()).is_empty()).then_some(())
    });
    let demo = fs::read_dir(directory.path()).unwrap().next().unwrap();
    let server = fs::read(demo.unwrap().path().join("data/server.json")).unwrap();
    let server: Value = serde_json::from_slice(&server).unwrap();
    let pid = i32::try_from(server["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert!(!running.wait().success());
    assert_nothing_left(directory.path());
}

/// A demo whose output is not read until a signal was sent, so it cannot end
/// before.
struct Blocked {
    demo: Child,
    output: PipeReader,
}

/// Bytes that a pipe holds.
const PIPE: usize = 64 << 10;

impl Blocked {
    /// Starts a demo that can write this number of bytes.
    fn start(mut command: Command, bytes: usize) -> Self {
        let (output, mut input) = pipe().unwrap();
        input.write_all(&vec![b'\n'; PIPE - bytes]).unwrap();
        let demo = command.stdout(input).spawn().unwrap();
        Self { demo, output }
    }

    /// Sends a signal, and checks that the demo ends because of it.
    fn end(self, signal: Signal) {
        kill_process(Pid::from_child(&self.demo), signal).unwrap();
        assert_eq!(self.wait().code(), Some(128 + signal.as_raw()));
    }

    /// Reads the output until the demo ends.
    fn wait(mut self) -> ExitStatus {
        self.output.read_to_end(&mut Vec::new()).unwrap();
        self.demo.wait().unwrap()
    }
}
