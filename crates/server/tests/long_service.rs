//! The service under faults and over time: `kill -9` of the server under running
//! commands and terminals, a restart of the container engine, and churn that must
//! leave nothing behind.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::print_stderr,
    reason = "what a server logged helps to find out why"
)]
#![allow(clippy::disallowed_methods, reason = "what is run needs settings")]
#![allow(dead_code, reason = "the harness has more than these tests need")]

#[path = "service/harness.rs"]
mod harness;
#[path = "service/long_watch.rs"]
mod long_watch;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use elevo_testkit::docker::Engine;
use elevo_testkit::long;
use elevo_testkit::wait::Waiting;
use futures::StreamExt;
use harness::{Events, KEY, Service, eventually};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

/// The address of a server that is killed and restarted.
#[derive(Clone)]
struct Place {
    http: reqwest::Client,
    url: Arc<std::sync::Mutex<String>>,
    /// Number of events that readers got.
    events: Arc<AtomicUsize>,
    /// Number of streams that broke off.
    breaks: Arc<AtomicUsize>,
}

impl Place {
    fn url(&self) -> String {
        self.url.lock().unwrap().clone()
    }
}

/// Reads the output of a command to its end, through any number of restarts.
async fn read_all(
    place: Place,
    sandbox: String,
    first: Events,
    started: tokio::sync::oneshot::Sender<()>,
) -> (String, usize) {
    let (mut events, mut text, mut offset, mut breaks) = (first, String::new(), 0, 0);
    let (_, start) = events.next().await.unwrap();
    let command = start["commandId"].as_str().unwrap().to_owned();
    started.send(()).unwrap();
    loop {
        match events.next().await {
            Some((id, event)) => {
                assert_ne!(event["type"], "gap", "{event}");
                assert_ne!(event["type"], "error", "{event}");
                text += event["data"].as_str().unwrap_or_default();
                offset = id;
                place.events.fetch_add(1, Ordering::Relaxed);
                if event["type"] == "exit" {
                    assert_eq!(event["exitCode"], 0);
                    return (text, breaks);
                }
            }
            None => {
                breaks += 1;
                place.breaks.fetch_add(1, Ordering::Relaxed);
                events = attach(&place, &sandbox, &command, offset).await;
            }
        }
    }
}

async fn attach(place: &Place, sandbox: &str, command: &str, offset: u64) -> Events {
    let url = format!("/api/v1/sandboxes/{sandbox}/process/{command}/output?offset={offset}");
    let mut waiting = Waiting::new("the server is back");
    loop {
        let request = place.http.get(place.url() + &url).bearer_auth(KEY);
        match request.send().await {
            Ok(answer) if answer.status() == 200 => return Events::new(answer),
            _ => waiting.pause().await,
        }
    }
}

/// Reads the output of a terminal up to the text `last`, through any number of
/// restarts.
async fn watch_all(place: Place, sandbox: String, pty: String, last: String) -> (String, usize) {
    let (mut text, mut offset, mut breaks) = (String::new(), 0, 0);
    loop {
        let path = format!("/api/v1/sandboxes/{sandbox}/pty/{pty}/ws");
        let mut waiting = Waiting::new("the server is back");
        let mut socket = loop {
            let url = place.url().replace("http:", "ws:");
            match harness::connect(&format!("{url}{path}?format=binary&offset={offset}")).await {
                Ok(socket) => break socket,
                Err(_) => waiting.pause().await,
            }
        };
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Binary(data) = message {
                offset += data.len() as u64;
                text += std::str::from_utf8(&data).unwrap();
            }
            if text.contains(&last) {
                return (text, breaks);
            }
        }
        breaks += 1;
    }
}

const COMMANDS: usize = 20;
const TERMINALS: usize = 5;

/// Starts a command and a reader of its output. Returns once the reader has got
/// its first event.
async fn start_command(service: &Service, place: &Place, id: &str, command: &str) -> Reader {
    let body = json!({"command": command, "stream": true, "timeout": 0});
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let request = service.request(Method::POST, &path).json(&body);
    let first = Events::new(request.send().await.unwrap());
    let (started, has_started) = tokio::sync::oneshot::channel();
    let reading = read_all(place.clone(), id.to_owned(), first, started);
    let reader = tokio::spawn(reading);
    has_started.await.unwrap();
    reader
}

/// Reads the output of a command or a terminal, and counts how often it broke
/// off.
type Reader = tokio::task::JoinHandle<(String, usize)>;

/// Starts a terminal with a reader, and runs a script in it.
async fn start_terminal(service: &Service, place: &Place, id: &str, script: &str) -> Reader {
    let wish = json!({"cols": 80, "rows": 24, "shell": "/bin/sh", "envs": {"PS1": "", "ENV": ""}});
    let path = format!("/api/v1/sandboxes/{id}/pty");
    let made = service.post(&path, wish).await;
    let pty = made["id"].as_str().unwrap().to_owned();
    let url = format!("{}{path}/{pty}/ws", service.url.replace("http:", "ws:"));
    let last = "over and out".to_owned();
    let reader = tokio::spawn(watch_all(place.clone(), id.to_owned(), pty, last));
    let mut socket = harness::connect(&url).await.unwrap();
    let script = format!("stty -echo; {script}; echo over and o''ut\n");
    futures::SinkExt::send(&mut socket, Message::Binary(script.into()))
        .await
        .unwrap();
    // Waits until the script is accepted, before this connection is closed.
    let _ = socket.next().await;
    let _ = tokio::time::timeout(Duration::from_secs(5), socket.next()).await;
    reader
}

/// Kills and restarts the server while commands write.
async fn kill_and_restart(service: &mut Service, place: &Place) {
    let events = place.events.load(Ordering::Relaxed) + 10 * COMMANDS;
    eventually("readers get output", async || {
        place.events.load(Ordering::Relaxed) > events
    })
    .await;
    let breaks = place.breaks.load(Ordering::Relaxed);
    service.kill();
    // Commands go on without a server meanwhile.
    eventually("a reader notices that the server is gone", async || {
        place.breaks.load(Ordering::Relaxed) > breaks
    })
    .await;
    service.run();
    *place.url.lock().unwrap() = service.url.clone();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_no_output_and_doubles_none() {
    let kills = long::rounds(10, 2) as usize;
    let mut service = Service::with_docker_and(&[("DEFAULT_PIDS", "1000")]).await;
    service.expect_warnings();
    let id = service.sandbox().await;
    let place = Place {
        http: service.http.clone(),
        url: Arc::new(std::sync::Mutex::new(service.url.clone())),
        events: Arc::default(),
        breaks: Arc::default(),
    };
    // Slow commands run during the whole test; fast commands wait for their
    // reader.
    let lines = (kills * 4 + 8) * 10;
    let slow =
        format!("n=0; while [ $n -lt {lines} ]; do n=$((n+1)); echo line $n; sleep 0.1; done");
    let expected_slow: String = (1..=lines).map(|n| format!("line {n}\n")).collect();
    let fast = format!("seq 1 {}", 400_000 * kills);
    let expected_fast: String = (1..=400_000 * kills).map(|n| format!("{n}\n")).collect();
    let mut readers = Vec::new();
    for number in 0..COMMANDS {
        let (command, expected) = match number % 4 {
            0 => (&fast, &expected_fast),
            _ => (&slow, &expected_slow),
        };
        readers.push((
            start_command(&service, &place, &id, command).await,
            expected,
        ));
    }
    let mut watchers = Vec::new();
    for _ in 0..TERMINALS {
        watchers.push(start_terminal(&service, &place, &id, &slow).await);
    }
    for _ in 0..kills {
        kill_and_restart(&mut service, &place).await;
    }
    let mut breaks = 0;
    for (reader, expected) in readers {
        let (text, broke) = reader.await.unwrap();
        assert_eq!(text.len(), expected.len());
        assert!(text == *expected, "output differs");
        breaks += broke;
    }
    for watcher in watchers {
        let (text, broke) = watcher.await.unwrap();
        let lines = text.split("\r\n").filter(|line| line.starts_with("line "));
        let expected = expected_slow.lines();
        assert_eq!(lines.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        breaks += broke;
    }
    assert!(breaks >= COMMANDS, "only {breaks} streams were broken off");
    long::note(format!(
        "{kills} kills under {COMMANDS} commands and {TERMINALS} terminals broke off {breaks} streams"
    ));
    service.delete(&id).await;
    assert!(service.containers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn churn_leaves_nothing_behind() {
    let rounds = long::rounds(10_000, 50);
    let settings = [("MAX_CONCURRENT_CREATIONS", "4"), ("WARM_POOL", "base=2")];
    let service = Arc::new(Service::with_docker_and(&settings).await);
    service.expect_warnings();
    // Warm up: connection pools are filled by use and stay, and so does the
    // memory that the allocator holds.
    live(&service, rounds / 10).await;
    full(&service).await;
    let pid = service.pid();
    let before = (fds(pid), service.mounts().len());
    let (memory, rules) = (resident(pid), outside());
    live(&service, rounds).await;
    full(&service).await;
    // Only the containers of the pool are left.
    assert_eq!(service.containers().len(), 2);
    let grown = resident(pid).saturating_sub(memory);
    assert!(
        grown < 64 << 10,
        "{grown} KiB more than the {memory} before"
    );
    assert_eq!(outside(), rules);
    let list = service.get("/api/v1/sandboxes").await;
    assert_eq!(list["total"], 0);
    let rows = Command::new("sqlite3")
        .arg(service.data.join("catalog.db"))
        .arg("select count(*) from sandboxes")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&rows.stdout).trim(), "0");
    // Connections close in the background.
    eventually(
        "the server has no more files open than before",
        async || fds(pid) <= before.0 + 4,
    )
    .await;
    assert_eq!(service.mounts().len(), before.1, "{:?}", service.mounts());
    let live: Vec<_> = walk(&service.data.join("workspaces"))
        .into_iter()
        .filter(|path| path.to_string_lossy().contains("sbx-"))
        .collect();
    assert!(live.is_empty(), "{live:?}");
    assert_eq!(service.complaints(), Vec::<String>::new());
    long::note(format!("{rounds} sandboxes made, used and deleted"));
}

/// Waits until the warm pool is full.
async fn full(service: &Service) {
    eventually("the pool is full", async || {
        let stats = service.get("/api/v1/stats").await;
        stats["pools"][0]["ready"] == 2
    })
    .await;
}

/// Returns the resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse().unwrap()
}

/// Returns what sandboxes could leave on the machine: rules of the packet filter,
/// networks of the engine.
fn outside() -> (usize, usize) {
    let rules = Command::new("iptables-save").output().unwrap();
    let rules = String::from_utf8_lossy(&rules.stdout).lines().count();
    (
        rules,
        harness::docker(&["network", "ls", "-q"]).lines().count(),
    )
}

/// Creates and deletes one sandbox: from the pool, or without it, in turns.
async fn one_life(service: &Service, number: u32) {
    let mut wish = json!({"template": "base"});
    if number.is_multiple_of(2) {
        wish["resources"] = json!({"pids": 100});
    }
    let made = service.post("/api/v1/sandboxes", wish).await;
    assert_eq!(made["state"], "running", "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    let said = service
        .output_of(&id, &format!("echo {number} > file && cat file"))
        .await;
    assert_eq!(said, format!("{number}\n"));
    service.delete(&id).await;
}

/// Creates and deletes `count` sandboxes, four at a time.
async fn live(service: &Arc<Service>, count: u32) {
    let lives = futures::stream::iter(0..count).map(|n| one_life(service, n));
    lives.buffer_unordered(4).collect::<Vec<_>>().await;
}

/// Returns the number of open files of a process.
fn fds(pid: u32) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
    entries.unwrap().count()
}

fn walk(path: &Path) -> Vec<PathBuf> {
    let output = Command::new("find")
        .arg(path)
        .args(["-maxdepth", "5"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(PathBuf::from).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_engine_with_live_restore_goes_unnoticed() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path(), "base", true);
    let service = Service::with_docker_and(&[("DOCKER_HOST", &engine.host())]).await;
    service.expect_warnings();
    let id = service.sandbox().await;
    let body = json!({"command": "n=0; while [ $n -lt 100 ]; do n=$((n+1)); echo $n; sleep 0.1; done", "stream": true});
    let request = service.request(Method::POST, &format!("/api/v1/sandboxes/{id}/process/run"));
    let mut events = Events::new(request.json(&body).send().await.unwrap());
    let mut text = String::new();
    while text.lines().count() < 5 {
        let (_, event) = events.next().await.expect("output");
        text += event["data"].as_str().unwrap_or_default();
    }
    service.expect_complaint("does not respond");
    engine.stop();
    // Commands run without the engine; new sandboxes cannot be created.
    assert_eq!(service.output_of(&id, "echo still").await, "still\n");
    let refused = service
        .post("/api/v1/sandboxes", json!({"template": "base"}))
        .await;
    assert_eq!(refused["error"]["name"], "RUNTIME_UNAVAILABLE", "{refused}");
    engine.start_again();
    while let Some((_, event)) = events.next().await {
        text += event["data"].as_str().unwrap_or_default();
    }
    let expected: String = (1..=100).map(|n| format!("{n}\n")).collect();
    assert_eq!(text, expected);
    let other = service.sandbox().await;
    for id in [id, other] {
        service.delete(&id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_engine_without_live_restore_stops_sandboxes_and_keeps_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path(), "base", false);
    let service = Service::with_docker_and(&[("DOCKER_HOST", &engine.host())]).await;
    service.expect_warnings();
    let mut ids = Vec::new();
    for n in 0..3 {
        let id = service.sandbox().await;
        service.output_of(&id, &format!("echo {n} > file; (while :; do date >> log; sleep 0.05; done) > /dev/null 2>&1 &")).await;
        ids.push(id);
    }
    service.expect_complaint("does not respond");
    engine.stop();
    engine.start_again();
    for (n, id) in ids.iter().enumerate() {
        let path = format!("/api/v1/sandboxes/{id}");
        eventually("its end is noticed", async || {
            service.get(&path).await["state"] == "error"
        })
        .await;
        let started: Value = service.post(&format!("{path}/start"), json!({})).await;
        assert_eq!(started["state"], "running", "{started}");
        let seen = service
            .output_of(id, "cat file; test -s log && echo logged")
            .await;
        assert_eq!(seen, format!("{n}\nlogged\n"));
        service.delete(id).await;
    }
}
