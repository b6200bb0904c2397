//! The cost of one hostile client for all others.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use elevo_testkit::outside::{Outside, PORT, PUBLIC};
use futures::future::{join_all, try_join_all};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::sandbox::Bench;
use crate::server::{Server, proportional};

/// Connections that never send a byte.
const SILENT: usize = 2000;
/// Uploads that stop after their first bytes.
const STALLED: usize = 500;
/// Requests with methods that do not exist in HTTP.
const ODD: usize = 1000;
/// Streams of one honest client.
const STREAMS: usize = 256;

/// A tenant with a sandbox, other than the attacker's.
struct Victim {
    key: String,
    sandbox: String,
}

impl Victim {
    async fn new(server: &Server) -> Result<Self> {
        let name = format!("victim-{}", std::process::id());
        let made = match server.post("/api/v1/tenants", &json!({"name": name})).await {
            Ok(made) => made,
            // Another measure has already created a tenant with this name.
            Err(_) => {
                let name = format!("{name}-{:?}", Instant::now());
                server
                    .post("/api/v1/tenants", &json!({"name": name}))
                    .await?
            }
        };
        let key = text(&made["secret"])?;
        let wish = json!({"template": "base"});
        let made = server.post_as(&key, "/api/v1/sandboxes", &wish).await?;
        let sandbox = text(&made["id"])?;
        Ok(Self { key, sandbox })
    }

    /// Times the round trips of commands, one after another.
    async fn commands(&self, server: &Server, count: usize) -> Result<Samples> {
        let path = format!("/api/v1/sandboxes/{}/process/run", self.sandbox);
        let mut samples = Samples::new();
        for _ in 0..count {
            let began = Instant::now();
            server
                .post_as(&self.key, &path, &json!({"command": "true"}))
                .await?;
            samples.push(began.elapsed().as_secs_f64());
        }
        Ok(samples)
    }

    /// Times requests that need no sandbox, until `end`.
    async fn requests(&self, server: &Server, end: &AtomicBool) -> Result<Samples> {
        let mut samples = Samples::new();
        while !end.load(Ordering::Acquire) {
            let began = Instant::now();
            server.get_as(&self.key, "/api/v1/projects").await?;
            samples.push(began.elapsed().as_secs_f64());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(samples)
    }

    async fn leave(self, server: &Server) -> Result<()> {
        let path = format!("/api/v1/sandboxes/{}", self.sandbox);
        server.delete_as(&self.key, &path).await
    }
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().context("a text")?.to_owned())
}

/// The number of open descriptors of a process by kind of file.
fn descriptors(pid: u32) -> Result<BTreeMap<String, usize>> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        // A descriptor may have been closed in between.
        let Ok(file) = std::fs::read_link(entry?.path()) else {
            continue;
        };
        let file = file.to_string_lossy();
        let kind = file.split(":[").next().unwrap_or(&file).to_owned();
        *kinds.entry(kind).or_insert(0) += 1;
    }
    Ok(kinds)
}

/// Returns how many more descriptors of each kind a process has than in `before`.
fn left_over(before: &BTreeMap<String, usize>, pid: u32) -> Result<BTreeMap<String, usize>> {
    let mut now = descriptors(pid)?;
    for (kind, count) in &mut now {
        *count = count.saturating_sub(before.get(kind).copied().unwrap_or(0));
    }
    now.retain(|_, count| *count > 0);
    Ok(now)
}

/// Measures the effect of silent, stalled and odd clients on a neighbour's commands and on 256
/// honest streams, and counts the descriptors that they leave open. The clients use other loopback
/// addresses; some have an ordinary key, and others have none.
pub(crate) fn clients(bench: &mut Bench) -> Result<Vec<Row>> {
    let rounds = bench.count(1000);
    let server = &bench.server;
    bench.runtime.block_on(async {
        let victim = Victim::new(server).await?;
        let ordinary = server
            .post("/api/v1/keys", &json!({"name": "ordinary"}))
            .await?;
        let ordinary = text(&ordinary["secret"])?;
        victim.commands(server, 50).await?;
        let quiet = victim.commands(server, rounds).await?;
        let before = descriptors(server.pid())?;
        let mut attack = JoinSet::new();
        let address: SocketAddr = server.address().parse()?;
        for n in 0..SILENT {
            attack.spawn(silent(address, last(n)));
        }
        for n in 0..STALLED {
            attack.spawn(stalled(address, last(n), ordinary.clone()));
        }
        for n in 0..ODD {
            attack.spawn(odd(address, last(n), n));
        }
        // Waits until all clients are connected.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let streams = (0..STREAMS).map(|_| {
            let asked = server.request_as(&victim.key, reqwest::Method::GET, "/api/v1/events");
            asked.header("accept", "text/event-stream").send()
        });
        let streams = try_join_all(streams).await?;
        let running = streams
            .iter()
            .filter(|stream| stream.status() == 200)
            .count();
        let loud = victim.commands(server, rounds).await?;
        drop(streams);
        attack.shutdown().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let left = left_over(&before, server.pid())?;
        for (kind, count) in &left {
            eprintln!("left open: {count} × {kind}");
        }
        let left: usize = left.values().sum();
        victim.leave(server).await?;
        Ok(vec![
            slower("command p99 beside hostile clients", &loud, &quiet),
            Row {
                name: format!(
                    "event streams of the honest client that failed to open, out of {STREAMS}"
                ),
                unit: Unit::Count,
                ours: Samples::of((STREAMS - running) as f64).figure(),
                peer: None,
                bar: Some(Bar::AtMost(0.0)),
            },
            Row {
                name: "descriptors left after a minute".into(),
                unit: Unit::Count,
                ours: Samples::of(left as f64).figure(),
                peer: None,
                bar: Some(Bar::AtMost(16.0)),
            },
        ])
    })
}

fn slower(name: &str, loud: &Samples, quiet: &Samples) -> Row {
    Row {
        name: name.into(),
        unit: Unit::Milliseconds,
        ours: loud.at(0.99).figure(),
        peer: Some(("quiet", quiet.at(0.99).figure())),
        bar: Some(Bar::AtMostTimes(3.0)),
    }
}

/// Returns the last byte of the loopback address of client `n`. The clients share sixty addresses.
fn last(n: usize) -> u8 {
    2 + (n % 60) as u8
}

async fn open(address: SocketAddr, last: u8) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, last], 0).into())?;
    socket.connect(address).await
}

/// Holds a connection without sending anything. Opens it again a second after the server closes it.
async fn silent(address: SocketAddr, last: u8) {
    loop {
        if let Ok(mut stream) = open(address, last).await {
            let _ = stream.read(&mut [0; 1024]).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn stalled(address: SocketAddr, last: u8, key: String) {
    let head = format!(
        "POST /api/v1/snapshots HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
         content-type: application/x-tar\r\ncontent-length: 100000\r\n\r\n"
    );
    loop {
        if let Ok(mut stream) = open(address, last).await {
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&[0; 512]).await;
            let _ = stream.read(&mut [0; 1024]).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Sends one request; a thousand clients send one each.
async fn odd(address: SocketAddr, last: u8, n: usize) {
    if let Ok(mut stream) = open(address, last).await {
        let request = format!("ODD{n} /api/v1/projects HTTP/1.1\r\nhost: x\r\n\r\n");
        let _ = stream.write_all(request.as_bytes()).await;
        let _ = stream.read(&mut [0; 1024]).await;
    }
}

/// Requests diffs of files with repeated lines, one for each core. The server must respond to them
/// and to concurrent requests.
pub(crate) fn differences(bench: &mut Bench) -> Result<Vec<Row>> {
    let server = &bench.server;
    bench.runtime.block_on(async {
        let victim = Victim::new(server).await?;
        let name = format!("lines-{}", std::process::id());
        let made = server
            .post("/api/v1/projects", &json!({"name": name}))
            .await?;
        let project = text(&made["id"])?;
        let lines = (16 << 20) / 5;
        // Lines that are all equal, and lines that each occur fifty times.
        let kinds: [fn(usize) -> usize; 2] = [|_| 0, |n| n % 65_536];
        let path = format!("/api/v1/projects/{project}/apply");
        let mut paths = Vec::new();
        for kind in kinds {
            let base: String = (0..lines).map(|n| format!("{:04x}\n", kind(n))).collect();
            let change = |n: usize| match n % 2 {
                0 => kind(n),
                _ => (kind(n) + 7919) % 65_536,
            };
            let changed: String = (0..lines).map(|n| format!("{:04x}\n", change(n))).collect();
            let mut versions = Vec::new();
            for content in [base, changed] {
                let files = json!({"files": [{"path": "lines", "content": content}]});
                let landed = server.post(&path, &files).await?;
                versions.push(text(&landed["head"])?);
            }
            paths.push(format!(
                "/api/v1/projects/{project}/diff?from={}&to={}&format=stat",
                versions[0], versions[1]
            ));
        }
        let cores = std::thread::available_parallelism()?.get();
        let end = Arc::new(AtomicBool::new(false));
        let (mut each, mut others) = (Samples::new(), Samples::new());
        for path in paths.iter().flat_map(|path| [path; 5]) {
            end.store(false, Ordering::Release);
            let asking = async {
                let answers = (0..cores).map(|_| async {
                    let began = Instant::now();
                    let answer = server.request(reqwest::Method::GET, path).send().await?;
                    let status = answer.status();
                    answer.bytes().await?;
                    anyhow::Ok((status, began.elapsed().as_secs_f64()))
                });
                let answers = join_all(answers).await;
                end.store(true, Ordering::Release);
                answers.into_iter().collect::<Result<Vec<_>>>()
            };
            let (answers, meanwhile) = tokio::join!(asking, victim.requests(server, &end));
            for (status, seconds) in answers? {
                ensure!(!status.is_server_error(), "{status}");
                each.push(seconds);
            }
            others.extend(&meanwhile?);
        }
        victim.leave(server).await?;
        Ok(vec![
            Row {
                name: "longest stat of 16 MiB of short lines, one for each core".into(),
                unit: Unit::Milliseconds,
                ours: each.at(1.0).figure(),
                peer: None,
                bar: Some(Bar::AtMost(5000.0)),
            },
            Row {
                name: "other requests meanwhile, p99".into(),
                unit: Unit::Milliseconds,
                ours: others.at(0.99).figure(),
                peer: None,
                bar: Some(Bar::AtMost(50.0)),
            },
        ])
    })
}

/// Measures the server's memory with ten keys and 64 commands each, all with much output.
pub(crate) fn output(bench: &mut Bench) -> Result<Vec<Row>> {
    let keys = bench.count(10).max(1);
    let server = &bench.server;
    bench.runtime.block_on(async {
        let mut sandboxes = Vec::new();
        for n in 0..keys {
            let wish = json!({"name": format!("loud-{n}")});
            let key = text(&server.post("/api/v1/keys", &wish).await?["secret"])?;
            let wish = json!({"template": "base"});
            let made = server.post_as(&key, "/api/v1/sandboxes", &wish).await?;
            sandboxes.push((key, text(&made["id"])?));
        }
        let pid = server.pid();
        let before = proportional(pid)?;
        let end = Arc::new(AtomicBool::new(false));
        let watching = {
            let end = end.clone();
            tokio::spawn(async move {
                let mut most = before;
                while !end.load(Ordering::Acquire) {
                    most = most.max(proportional(pid).unwrap_or_default());
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                most
            })
        };
        let command = "head -c 67108864 /dev/zero | tr '\\0' x; sleep 2";
        let wish = json!({"command": command, "maxOutputSize": 64 << 20, "timeout": 0});
        let runs = sandboxes.iter().flat_map(|(key, id)| {
            let path = format!("/api/v1/sandboxes/{id}/process/run");
            let wish = &wish;
            (0..64).map(move |_| {
                let path = path.clone();
                async move { server.post_as(key, &path, wish).await }
            })
        });
        let results = join_all(runs).await;
        end.store(true, Ordering::Release);
        let most = watching.await?;
        for result in results {
            ensure!(result?["exitCode"] == 0, "a command has failed");
        }
        for (key, id) in &sandboxes {
            server
                .delete_as(key, &format!("/api/v1/sandboxes/{id}"))
                .await?;
        }
        Ok(vec![Row {
            name: format!("growth of the server by {} commands of 64 MiB", keys * 64),
            unit: Unit::Kibibytes,
            ours: Samples::of(most - before).figure(),
            peer: None,
            bar: Some(Bar::AtMost(512.0 * 1024.0)),
        }])
    })
}

/// Measures a neighbour's commands and the API while a sandbox opens connections, and writes and
/// syncs as fast as it can.
pub(crate) fn sandbox(bench: &mut Bench) -> Result<Vec<Row>> {
    let rounds = bench.count(1000);
    let server = &bench.server;
    bench.runtime.block_on(async {
        let victim = Victim::new(server).await?;
        let made = server
            .post(
                "/api/v1/sandboxes",
                &json!({"template": "base", "network": "internet"}),
            )
            .await?;
        let attacker = text(&made["id"])?;
        let path = format!("/api/v1/sandboxes/{attacker}/process/run");
        victim.commands(server, 50).await?;
        let quiet = victim.commands(server, rounds).await?;
        let api = requests(server, &victim, rounds).await?;
        // The network outside the sandbox is a namespace on this machine.
        let _outside = Outside::new();
        let attacks = [
            "while :; do dd if=/dev/zero of=big bs=1M count=64 conv=fsync 2>/dev/null; done".into(),
            "while :; do dd if=/dev/zero of=small bs=4k count=100 oflag=sync 2>/dev/null; done"
                .into(),
            format!(
                "n=1; while :; do echo x > /dev/udp/{PUBLIC}/$n; \
                 n=$((n % 65000 + 1)); done 2>/dev/null"
            ),
            format!(
                "while :; do for n in $(seq 64); do \
                 (exec 3<>/dev/tcp/{PUBLIC}/{PORT}; sleep 1) & done; wait; done 2>/dev/null"
            ),
        ];
        for attack in &attacks {
            let command = format!("bash -c {}", quoted(attack));
            let wish = json!({"command": command, "background": true, "timeout": 0});
            server.post(&path, &wish).await?;
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        let loud = victim.commands(server, rounds).await?;
        let loud_api = requests(server, &victim, rounds).await?;
        server.delete(&[attacker]).await?;
        victim.leave(server).await?;
        Ok(vec![
            slower("command p99 beside a hostile sandbox", &loud, &quiet),
            slower("API p99 beside a hostile sandbox", &loud_api, &api),
        ])
    })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

async fn requests(server: &Server, victim: &Victim, count: usize) -> Result<Samples> {
    let mut samples = Samples::new();
    for _ in 0..count {
        let began = Instant::now();
        server.get_as(&victim.key, "/api/v1/projects").await?;
        samples.push(began.elapsed().as_secs_f64());
    }
    Ok(samples)
}
