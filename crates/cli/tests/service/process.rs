//! Starting, stopping and watching a server in the background.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

use elevo_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::server::{Ended, Server, elevo};

fn start(server: &Server) -> Command {
    server.start_command(&["server", "start"], "0")
}

fn value(ended: Ended) -> Value {
    serde_json::from_str(&ended.text()).unwrap()
}

/// The output and exit code of `server status --json`.
fn status(server: &Server) -> (i32, Value) {
    let ended = server.run(["server", "status", "--json"]);
    let shape = serde_json::from_slice(&ended.stdout).expect(&ended.stderr);
    (ended.code, shape)
}

fn pid(value: &Value) -> Pid {
    Pid::from_raw(value["pid"].as_i64().unwrap().try_into().unwrap()).unwrap()
}

/// An engine that accepts connections and never responds, so that a start waits
/// for it.
struct MuteEngine(UnixListener);

impl MuteEngine {
    fn new(server: &Server) -> (Self, String) {
        let path = server.directory.path().join("mute.sock");
        let listener = UnixListener::bind(&path).unwrap();
        (Self(listener), format!("unix://{}", path.display()))
    }

    /// Waits until a server has connected.
    fn connected(&self) -> UnixStream {
        self.0.accept().unwrap().0
    }
}

/// A `server start` that waits for a mute engine.
struct PendingStart {
    command: Child,
    engine: MuteEngine,
    connection: UnixStream,
}

impl PendingStart {
    fn new(server: &Server) -> Self {
        let (engine, host) = MuteEngine::new(server);
        let mut command = start(server);
        command.env("DOCKER_HOST", &host).stderr(Stdio::piped());
        let command = command.stdout(Stdio::piped()).spawn().unwrap();
        let connection = engine.connected();
        Self {
            command,
            engine,
            connection,
        }
    }

    /// Waits for the end of the command, while the engine stays mute.
    fn ended(self) -> Ended {
        Ended::new(self.command.wait_with_output().unwrap())
    }
}

#[test]
fn a_server_in_the_background_starts_and_stops() {
    let server = Server::new();
    let (code, shape) = status(&server);
    assert_eq!((code, &shape["state"]), (3, &"stopped".into()));
    let started = value(Ended::new(start(&server).output().unwrap()));
    assert_eq!(started["key_created"], true);
    server.ok(["project", "create", "site"]);

    let (_, shape) = status(&server);
    assert_eq!(shape["state"], "running", "{shape}");
    assert_eq!(shape["server"], started["server"]);
    assert_eq!(shape["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(shape["pid"], started["pid"]);
    let text = server.run(["server", "status"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains(started["server"].as_str().unwrap()), "{text}");

    let second = Ended::new(start(&server).output().unwrap());
    assert_eq!((second.code, second.name().as_str()), (4, "server_running"));
    let up = server.start_command(&["up"], "0").output().unwrap();
    let up = value(Ended::new(up));
    assert_eq!(
        (&up["server"], &up["pid"]),
        (&started["server"], &started["pid"])
    );

    let logs = server.ok(["server", "logs", "-n", "1000"]);
    assert!(logs.contains("listening"), "{logs}");
    for line in server.ok(["server", "logs", "--json"]).lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }

    let stopped = value(server.run(["server", "stop", "--json"]));
    assert_eq!(stopped["pid"], started["pid"]);
    assert_eq!(status(&server).0, 3);
    let again = server.run(["down", "--json"]);
    assert_eq!(
        (again.code, again.name().as_str()),
        (3, "server_not_running")
    );
}

#[test]
fn up_prints_commands_to_try_and_down_stops_the_server() {
    let server = Server::new();
    let mut up = elevo();
    up.args(["up", "--port", "0", "--metrics-port", "0", "--data"])
        .arg(server.data())
        .env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let text = Ended::new(up.output().unwrap()).text();
    assert!(text.contains("elevo project create"), "{text}");
    assert!(text.contains("server.log"), "{text}");
    assert!(server.ok(["down"]).contains("Stopped the server"));
    let again = Ended::new(up.output().unwrap()).text();
    assert!(!again.contains("key was written"), "{again}");
}

#[test]
fn the_record_of_a_killed_server_is_ignored() {
    let server = Server::new();
    let first = value(Ended::new(start(&server).output().unwrap()));
    kill_process(pid(&first), Signal::KILL).unwrap();
    // The lock is free once the process has ended.
    while status(&server).1["state"] != "stopped" {}
    assert!(server.data().join("server.lock").exists());
    // As if another process had the id of the killed server.
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let lock = server.data().join("server.lock");
    let mut record: Value = serde_json::from_slice(&fs::read(&lock).unwrap()).unwrap();
    record["pid"] = other.id().into();
    fs::write(&lock, record.to_string()).unwrap();
    let gone = server.run(["server", "stop", "--json"]);
    assert_eq!((gone.code, gone.name().as_str()), (3, "server_not_running"));
    assert!(other.try_wait().unwrap().is_none());

    let second = value(Ended::new(start(&server).output().unwrap()));
    assert_eq!(second["key_created"], false);
    server.ok(["server", "stop"]);
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn of_several_starts_at_once_one_wins() {
    let server = Server::new();
    let spawn = |_| {
        let mut command = start(&server);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let starts: Vec<_> = (0..4).map(spawn).collect();
    let ended = starts.into_iter().map(|it| it.wait_with_output().unwrap());
    let ended: Vec<_> = ended.map(Ended::new).collect();
    let won = ended.iter().filter(|ended| ended.code == 0).count();
    assert_eq!(won, 1);
    for lost in ended.iter().filter(|ended| ended.code != 0) {
        let name = lost.name();
        assert!(
            ["server_busy", "server_running"].contains(&name.as_str()),
            "{name}"
        );
    }
    server.ok(["project", "ls"]);
    server.ok(["server", "stop"]);
}

#[test]
fn a_stop_during_a_start_ends_the_server() {
    let server = Server::new();
    let starting = PendingStart::new(&server);
    let (code, shape) = status(&server);
    assert_eq!((code, &shape["state"]), (5, &"starting".into()));
    let second = Ended::new(start(&server).output().unwrap());
    assert_eq!((second.code, second.name().as_str()), (5, "server_busy"));
    server.ok(["server", "stop"]);
    let ended = starting.ended();
    assert_eq!((ended.code, ended.name().as_str()), (1, "server_stopped"));
    assert_eq!(status(&server).0, 3);
    Ended::new(start(&server).output().unwrap()).text();
}

#[test]
fn a_server_that_is_killed_during_its_start_can_be_started_again() {
    let server = Server::new();
    let starting = PendingStart::new(&server);
    let (_, shape) = status(&server);
    kill_process(pid(&shape), Signal::KILL).unwrap();
    let ended = starting.ended();
    assert_eq!((ended.code, ended.name().as_str()), (1, "server_died"));
    assert_eq!(status(&server).0, 3);
    Ended::new(start(&server).output().unwrap()).text();
    server.ok(["project", "ls"]);
}

#[test]
fn a_server_outlives_the_command_that_starts_it() {
    let server = Server::new();
    let mut starting = PendingStart::new(&server);
    starting.command.kill().unwrap();
    starting.command.wait().unwrap();
    // Without the engine the start continues.
    drop((starting.connection, starting.engine));
    fs::remove_file(server.directory.path().join("mute.sock")).unwrap();
    wait::until("the server has started", || {
        (status(&server).1["state"] != "starting").then_some(())
    });
    server.ok(["project", "ls"]);
    server.ok(["server", "stop"]);
}

#[test]
fn a_rejected_start_reports_the_error_of_the_new_process() {
    let server = Server::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = server.start_command(&["server", "start"], &port);
    let ended = Ended::new({ ended }.output().unwrap());
    assert_eq!((ended.code, ended.name().as_str()), (4, "port_taken"));
    assert_eq!(status(&server).0, 3);

    let mut check = server.command(["server", "config", "check", "--json"]);
    let ended = Ended::new(check.env("MAX_PIDS", "lots").output().unwrap());
    assert_eq!((ended.code, ended.name().as_str()), (2, "settings_invalid"));
    server.ok(["server", "config", "check"]);
}

#[test]
fn a_followed_log_shows_new_lines() {
    let server = Server::new();
    let absent = server.run(["server", "logs", "--json"]);
    assert_eq!((absent.code, absent.name().as_str()), (3, "no_log"));
    fs::create_dir_all(server.data()).unwrap();
    let log = server.data().join("server.log");
    fs::write(&log, "one\ntwo\n").unwrap();
    let mut command = server.command(["server", "logs", "-f", "-n", "1"]);
    let mut following = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "two");
    fs::rename(&log, server.data().join("server.log.1")).unwrap();
    fs::write(&log, "three\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "three");
    following.kill().unwrap();
    following.wait().unwrap();
}
