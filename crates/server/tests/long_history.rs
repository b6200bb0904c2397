//! Promises under faults: eight clients change and read projects while the server
//! is killed after some of their calls. They record every call and its
//! response, and the history checker decides whether heads are linearizable and
//! every request took effect once.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::print_stderr,
    reason = "the log of a server helps to find out why a test failed"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a server that is run needs settings"
)]
#![allow(dead_code, reason = "the harness has more than these tests need")]

#[path = "history/checker.rs"]
mod checker;
#[path = "history/clients.rs"]
mod clients;
#[path = "service/harness.rs"]
mod harness;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use checker::{Answer, Entry, History, Log, Thing, check};
use clients::{Client, Place};
use elevo_testkit::long;
use harness::Service;
use serde_json::{Value, json};

const CLIENTS: usize = 8;
const PROJECTS: usize = 2;
/// Maximum number of acknowledged calls between two kills.
const CALLS: u64 = 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_killed_server_keeps_heads_linearizable_and_requests_once() {
    let kills = long::rounds(150, 3);
    let calls = long::rounds(5000, 50) as usize;
    let least = Duration::from_secs(long::rounds(600, 1).into());
    let seed = long::seed();
    let mut service = Service::start_without_engine(&[]);
    service.expect_warnings();
    let (projects, first) = projects(&service).await;
    let place = Arc::new(Place::new(&service, projects.clone()));
    let working: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(Client::new(number, seed, place.clone()).work()))
        .collect();
    let (began, mut killed) = (Instant::now(), 0);
    let is_enough = |killed| killed >= kills && began.elapsed() >= least;
    let acknowledged = || place.acknowledged.load(Ordering::Relaxed);
    let mut dice = seed;
    while !is_enough(killed) || acknowledged() < calls {
        ready(&service).await;
        // The seed decides when the kill comes.
        dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let last = acknowledged() + ((dice >> 33) % CALLS) as usize;
        harness::eventually("clients get responses", async || acknowledged() > last).await;
        tokio::task::block_in_place(|| {
            service.kill();
            service.run();
        });
        place.moved(&service.url);
        killed += 1;
    }
    place.stop.store(true, Ordering::Relaxed);
    let mut history = History::default();
    for client in working {
        let (requests, reads) = client.await.unwrap();
        history.requests.extend(requests);
        history.reads.extend(reads);
    }
    for (project, first) in projects.iter().zip(first) {
        history.logs.push(log(&service, project, first).await);
    }
    history.things = things(&service).await;
    tell(&history, killed, began.elapsed());
    assert_eq!(check(&history), [], "ELEVO_SEED={seed}");
}

/// Creates projects; returns them and their first heads.
async fn projects(service: &Service) -> (Vec<String>, Vec<String>) {
    let mut projects = (Vec::new(), Vec::new());
    for number in 0..PROJECTS {
        let wish = json!({"name": format!("project {number}")});
        let made = service.post("/api/v1/projects", wish).await;
        projects.0.push(text(&made["id"]));
        projects.1.push(text(&made["head"]));
    }
    projects
}

/// Waits until the server reports that it is ready.
async fn ready(service: &Service) {
    harness::eventually("the server is ready", async || {
        let answer = service.http.get(format!("{}/ready", service.metrics));
        answer
            .send()
            .await
            .is_ok_and(|answer| answer.status() == 200)
    })
    .await;
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value}"))
        .to_owned()
}

async fn log(service: &Service, project: &str, first: String) -> Log {
    let mut entries = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/projects/{project}/steps?limit=100{cursor}");
        let page = service.get(&path).await;
        entries.extend(page["items"].as_array().unwrap().iter().map(|entry| Entry {
            sequence: entry["number"].as_u64().unwrap(),
            head: text(&entry["snapshot"]),
            parent: text(&entry["parent"]),
            tag: text(&entry["message"]),
        }));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    entries.reverse();
    Log { first, entries }
}

/// Returns the projects and workspaces that clients have created.
async fn things(service: &Service) -> Vec<Thing> {
    let mut things = Vec::new();
    for kind in ["projects", "workspaces"] {
        let mut cursor = String::new();
        loop {
            let page = service
                .get(&format!("/api/v1/{kind}?limit=100{cursor}"))
                .await;
            let items = page["items"].as_array();
            let items = items.unwrap_or_else(|| panic!("{kind}: {page}"));
            things.extend(items.iter().map(|thing| Thing {
                tag: text(&thing["name"]),
                id: text(&thing["id"]),
            }));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
    }
    things
}

fn tell(history: &History, killed: u32, elapsed: Duration) {
    let attempts = history
        .requests
        .iter()
        .flat_map(|request| &request.attempts);
    let (mut done, mut replayed, mut unknown, mut refused) = (0, 0, 0, 0);
    for attempt in attempts {
        match &attempt.answer {
            Answer::Done { is_replayed, .. } => {
                done += 1;
                replayed += usize::from(*is_replayed);
            }
            Answer::Unknown => unknown += 1,
            Answer::Refused => refused += 1,
        }
    }
    let landed: usize = history.logs.iter().map(|log| log.entries.len()).sum();
    long::note(format!(
        "{killed} kills in {} s under {CLIENTS} clients: {} calls acknowledged ({} reads, {done} \
         changes, {replayed} of them from stored answers), {unknown} without an answer, {refused} \
         refused; {landed} landings",
        elapsed.as_secs(),
        history.reads.len() + done,
        history.reads.len(),
    ));
}
