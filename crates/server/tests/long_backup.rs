//! Backups of a whole server while twenty clients merge into one project, some of
//! them interrupted by `kill -9`. A restored server has everything that was
//! acknowledged before the backup began, and all of it is of one moment before
//! the backup ended.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::print_stderr,
    reason = "the log of a server is part of the report"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "servers under test need settings"
)]
#![allow(dead_code, reason = "the harness has more than these tests need")]

#[path = "service/harness.rs"]
mod harness;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use elevo_engine::Progress;
use elevo_server::{RestoreError, restore_server};
use elevo_testkit::long;
use elevo_testkit::wait::Waiting;
use harness::{KEY, Service};
use reqwest::Method;
use serde_json::{Value, json};

const CLIENTS: usize = 20;
/// Number of files of each client, written in turns.
const OWN: u64 = 5;
/// A file that is never merged: the policy excludes it.
const DRAFT: &str = "drafts/draft";

/// The address of the server, which is killed now and then.
#[derive(Clone)]
struct Place {
    http: reqwest::Client,
    url: Arc<Mutex<String>>,
    /// No client sends a request while this is held for writing.
    pause: Arc<tokio::sync::RwLock<()>>,
}

impl Place {
    /// Sends a merge until it gets a response.
    async fn merge(&self, workspace: &str, name: &str) -> Value {
        // The server is killed or busy; a client cannot notice when it is back.
        let mut waiting = Waiting::new("the server merges");
        loop {
            if let Some(merged) = self.try_merge(workspace, name).await {
                return merged;
            }
            waiting.pause().await;
        }
    }

    async fn try_merge(&self, workspace: &str, name: &str) -> Option<Value> {
        let _working = self.pause.read().await;
        let url = self.url.lock().unwrap().clone();
        let url = format!("{url}/api/v1/workspaces/{workspace}/merge");
        let request = self.http.post(url).bearer_auth(KEY);
        let request = request.header("Idempotency-Key", name);
        let sent = request.json(&json!({ "message": name })).send().await;
        let answer = sent.ok()?;
        let status = answer.status().as_u16();
        let text = answer.text().await.ok()?;
        match status {
            200 => Some(serde_json::from_str(&text).unwrap()),
            409 | 429 | 503 => None,
            status => panic!("{name}: {status} {text}"),
        }
    }
}

/// A client with its own workspace.
#[derive(Clone)]
struct Client {
    number: usize,
    workspace: String,
    files: PathBuf,
    /// The last acknowledged round; 0 before the first.
    merged: Arc<AtomicU64>,
    /// The last round of the file that is never merged.
    drafted: Arc<AtomicU64>,
}

impl Client {
    async fn new(service: &Service, project: &str, number: usize) -> Self {
        let wish = json!({"project": project});
        let made = service.post("/api/v1/workspaces", wish).await;
        let files = PathBuf::from(made["path"].as_str().unwrap());
        fs::create_dir_all(files.join("drafts")).unwrap();
        Self {
            number,
            workspace: made["id"].as_str().unwrap().to_owned(),
            files,
            merged: Arc::default(),
            drafted: Arc::default(),
        }
    }

    fn name(&self, round: u64) -> String {
        format!("{}-{round}", self.number)
    }

    fn path(&self, round: u64) -> String {
        format!("own/{}/{}", self.number, round % OWN)
    }

    async fn work(self, place: Place, stop: Arc<AtomicBool>) {
        for round in 1.. {
            let path = self.files.join(self.path(round));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, self.name(round)).unwrap();
            let merged = place.merge(&self.workspace, &self.name(round)).await;
            assert!(merged["step"].is_u64(), "{merged}");
            self.merged.store(round, Ordering::SeqCst);
            // Replaced atomically, so that a copy has one round or another.
            let draft = self.files.join(DRAFT);
            fs::write(draft.with_extension("new"), round.to_string()).unwrap();
            fs::rename(draft.with_extension("new"), draft).unwrap();
            self.drafted.store(round, Ordering::SeqCst);
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// The rounds of each client at one moment: acknowledged, and drafted.
fn rounds(clients: &[Client]) -> Vec<(u64, u64)> {
    let of = |client: &Client| {
        let merged = client.merged.load(Ordering::SeqCst);
        (merged, client.drafted.load(Ordering::SeqCst))
    };
    clients.iter().map(of).collect()
}

/// Creates a project whose policy never merges drafts.
async fn new_project(service: &Service) -> String {
    let made = service.post("/api/v1/projects", json!({"name": "p"})).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let policy = json!({"policy": {"local": ["/drafts/"]}});
    let path = format!("/api/v1/projects/{id}/policy");
    service.expect(Method::PUT, &path, Some(policy), 200).await;
    id
}

/// Waits until the project has a step: a backup may take less time than the
/// first merge.
async fn merges_have_begun(clients: &[Client]) {
    let mut waiting = Waiting::new("a client has merged");
    while rounds(clients).iter().all(|(merged, _)| *merged == 0) {
        waiting.pause().await;
    }
}

fn admin(service: &Service) -> reqwest::Client {
    let socket = service.data.join("run/admin/admin.sock");
    reqwest::Client::builder()
        .unix_socket(socket)
        .build()
        .unwrap()
}

async fn back_up(service: &Service, backups: &Path) -> reqwest::Result<Value> {
    let wish = json!({"directory": backups.to_str().unwrap(), "keep": 2});
    let request = admin(service).post("http://localhost/backup").json(&wish);
    let answer = request.send().await?;
    let (status, text) = (answer.status(), answer.text().await?);
    assert_eq!(status, 200, "{text}");
    Ok(serde_json::from_str(&text).unwrap())
}

/// Returns the log of a project by sequence number: the message and the snapshot
/// of each step.
async fn log(service: &Service, project: &str) -> BTreeMap<u64, (String, String)> {
    let mut steps = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let url = format!("/api/v1/projects/{project}/steps?limit=100{cursor}");
        let page = service.get(&url).await;
        for entry in page["items"].as_array().unwrap() {
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            let sequence = entry["number"].as_u64().unwrap();
            steps.insert(sequence, (text("message"), text("snapshot")));
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return steps,
        }
    }
}

/// Starts a server on a restored directory, and compares it with the original.
async fn check(data: &Path, original: &Service, project: &str, moment: &Moment<'_>) -> u64 {
    let path = data.to_str().unwrap();
    let mut restored = Service::new_without_engine(&[("DATA_DIR", path)]);
    restored.expect_warnings();
    restored.data = data.to_owned();
    restored.run();
    let (steps, all) = (log(&restored, project).await, log(original, project).await);
    let last = *steps.keys().last().unwrap();
    let same: BTreeMap<_, _> = all
        .range(..=last)
        .map(|(n, step)| (*n, step.clone()))
        .collect();
    assert_eq!(
        steps, same,
        "the restored log is not the beginning of the original"
    );
    assert!(
        last <= moment.last_step,
        "{last} steps are later than the end"
    );
    let known: HashMap<_, _> = steps.values().map(|step| (step.0.as_str(), ())).collect();
    for (client, (before, after)) in moment.clients.iter().zip(moment.rounds()) {
        let (merged, drafted) = before;
        for round in 1..=merged {
            let name = client.name(round);
            assert!(
                known.contains_key(name.as_str()),
                "{name} was acknowledged before"
            );
        }
        let landed = (merged..=after.0 + 1).rev();
        let mut landed = landed.filter(|round| known.contains_key(client.name(*round).as_str()));
        check_client(&restored, project, client, landed.next()).await;
        let url = format!("/api/v1/workspaces/{}", client.workspace);
        let row = restored.get(&url).await;
        let files = Path::new(row["path"].as_str().unwrap_or_else(|| panic!("{row}")));
        let draft = fs::read_to_string(files.join(DRAFT)).unwrap_or_default();
        let draft = draft.parse().unwrap_or(0);
        assert!(
            (drafted..=after.1 + 1).contains(&draft),
            "draft {draft}: {before:?} {after:?}"
        );
    }
    assert_eq!(restored.complaints(), Vec::<String>::new());
    restored.stop();
    last
}

/// Checks that the head has the last version of each file that a client merged.
async fn check_client(service: &Service, project: &str, client: &Client, landed: Option<u64>) {
    let Some(landed) = landed.filter(|round| *round > 0) else {
        return;
    };
    for round in landed.saturating_sub(OWN - 1).max(1)..=landed {
        let path = client.path(round);
        let url = format!("/api/v1/projects/{project}/files?path={path}");
        let answer = service.request(Method::GET, &url).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), client.name(round), "{path}");
    }
}

/// The clients before a backup began and after it ended.
struct Moment<'a> {
    clients: &'a [Client],
    begun: Vec<(u64, u64)>,
    ended: Vec<(u64, u64)>,
    last_step: u64,
}

impl Moment<'_> {
    fn rounds(&self) -> impl Iterator<Item = ((u64, u64), (u64, u64))> {
        self.begun.iter().copied().zip(self.ended.iter().copied())
    }
}

/// Kills the server during a backup, once a part of it exists. Returns `false` if
/// the backup was done before.
async fn kill_during(service: &mut Service, place: &Place, backups: &Path, part: &str) -> bool {
    let part = backups.join("unfinished").join(part);
    let _ = fs::remove_dir_all(backups.join("unfinished"));
    let mut making = Box::pin(back_up(service, backups));
    let is_done = loop {
        if part.exists() {
            break false;
        }
        // No pause: the kill comes right after the file has appeared.
        tokio::select! {
            biased;
            made = &mut making => break made.is_ok(),
            () = tokio::task::yield_now() => {}
        }
    };
    drop(making);
    if is_done {
        return false;
    }
    service.kill();
    let is_cut_off = backups.join("unfinished").exists();
    service.run();
    let _paused = place.pause.write().await;
    *place.url.lock().unwrap() = service.url.clone();
    is_cut_off
}

async fn restores_no_unfinished_backup(backups: &Path, data: &Path) {
    let unfinished = backups.join("unfinished");
    let refused = restore_server(&unfinished, data, None, None, &Progress::new()).await;
    assert!(
        matches!(refused, Err(RestoreError::Unfinished { .. })),
        "{refused:?}"
    );
    assert!(!data.exists());
}

/// Deletes the directory of a restored server, which may have mounts.
fn remove(data: &Path) {
    for mount in harness::mounts_below(data).iter().rev() {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(mount)
            .status();
    }
    fs::remove_dir_all(data).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_server_has_all_that_was_acknowledged_before_its_backup_began() {
    let all = long::rounds(20, 2);
    // A quarter of the rounds has a kill before its backup.
    let kills = (all / 4).max(1);
    let mut service = Service::start_without_engine(&[]);
    service.expect_warnings();
    let project = new_project(&service).await;
    let place = Place {
        http: service.http.clone(),
        url: Arc::new(Mutex::new(service.url.clone())),
        pause: Arc::default(),
    };
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        clients.push(Client::new(&service, &project, number).await);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let work = |client: &Client| client.clone().work(place.clone(), stop.clone());
    let working: Vec<_> = clients
        .iter()
        .map(|client| tokio::spawn(work(client)))
        .collect();
    merges_have_begun(&clients).await;
    let directory = tempfile::tempdir().unwrap();
    let backups = directory.path().join("backups");
    let parts = ["catalog.db", "workspaces", "store", "store/db", "audit"];
    let (mut killed, mut finished) = (0, 0);
    let mut longest = Duration::ZERO;
    for round in 0..all {
        if round % 4 == 0 && killed < kills {
            let part = parts[killed as usize % parts.len()];
            while !kill_during(&mut service, &place, &backups, part).await {
                finished += 1;
                assert!(finished < 1000, "no kill hits a backup");
            }
            killed += 1;
            let data = directory.path().join("cut-off");
            restores_no_unfinished_backup(&backups, &data).await;
        }
        let begun = rounds(&clients);
        let began = Instant::now();
        let made = back_up(&service, &backups).await.unwrap();
        longest = longest.max(began.elapsed());
        assert_eq!(made["unread"], json!([]), "{made}");
        let steps = log(&service, &project).await;
        let moment = Moment {
            clients: &clients,
            begun,
            ended: rounds(&clients),
            last_step: *steps.keys().last().unwrap(),
        };
        let data = directory.path().join("restored");
        let backup = Path::new(made["backup"].as_str().unwrap());
        restore_server(backup, &data, None, None, &Progress::new())
            .await
            .unwrap();
        let last = check(&data, &service, &project, &moment).await;
        remove(&data);
        long::note(format!(
            "round {round}: {last} of {} steps",
            moment.last_step
        ));
    }
    stop.store(true, Ordering::Relaxed);
    for client in working {
        client.await.unwrap();
    }
    let merges: u64 = rounds(&clients).iter().map(|(merged, _)| merged).sum();
    long::note(format!(
        "{all} backups restored under {merges} merges of {CLIENTS} clients, {killed} after a kill \
         during a backup ({finished} others finished before the kill); the longest backup took \
         {longest:?}"
    ));
    assert_eq!(killed, kills);
}
