//! Merges under faults: `kill -9` of the server while twenty clients merge into
//! one project. Every acknowledged merge is in the history exactly once, the
//! history agrees with the trees, and held changes wait in reviews.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::print_stderr,
    reason = "what a server logged helps to find out why"
)]
#![allow(clippy::disallowed_methods, reason = "what is run needs settings")]
#![allow(dead_code, reason = "the harness has more than these tests need")]

#[path = "service/harness.rs"]
mod harness;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use elevo_testkit::long;
use elevo_testkit::wait::Waiting;
use harness::{KEY, Service, eventually};
use reqwest::Method;
use serde_json::{Value, json};

const CLIENTS: usize = 20;
/// Number of files of each client, written in turns.
const OWN: usize = 5;
/// A client changes the contested line in every third merge.
const WANTS: usize = 3;
/// Maximum number of acknowledged merges between two kills.
const MERGES: u64 = 200;
const SHARED: &str = "shared.txt";
const CONTESTED: &str = "contested.txt";

/// The address of the server, which is killed and restarted.
#[derive(Clone)]
struct Place {
    http: reqwest::Client,
    url: Arc<Mutex<String>>,
    /// No merge begins while this is held for writing.
    pause: Arc<tokio::sync::RwLock<()>>,
}

impl Place {
    /// Posts until there is a response, through any number of restarts. Returns
    /// the response and the number of attempts.
    async fn post(&self, path: &str, key: &str, body: &Value) -> (Value, usize) {
        let what = format!("{path} is answered");
        // The server is killed or busy; a client cannot notice when it is back.
        let mut waiting = Waiting::new(&what);
        for attempt in 1.. {
            if let Some(answer) = self.try_post(path, key, body).await {
                return (answer, attempt);
            }
            waiting.pause().await;
        }
        unreachable!("a pause panics in the end")
    }

    async fn try_post(&self, path: &str, key: &str, body: &Value) -> Option<Value> {
        let _working = self.pause.read().await;
        let url = format!("{}{path}", self.url.lock().unwrap());
        let request = self.http.post(url).bearer_auth(KEY);
        let request = request.header("Idempotency-Key", key).json(body);
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        // An incomplete response does not count.
        let text = answer.text().await.ok()?;
        match status {
            200 => Some(serde_json::from_str(&text).unwrap()),
            409 | 429 | 503 => None,
            status => panic!("{path}: {status} {text}"),
        }
    }
}

/// A client with its own workspace.
struct Client {
    number: usize,
    workspace: String,
    files: PathBuf,
    /// The last round of each of its files, and of the contested line.
    own: [Option<usize>; OWN],
    wanted: Option<usize>,
    done: usize,
    repeated: usize,
}

impl Client {
    async fn new(service: &Service, project: &str, number: usize) -> Self {
        let (workspace, files) = new_workspace(service, project).await;
        Self {
            number,
            workspace,
            files,
            own: [None; OWN],
            wanted: None,
            done: 0,
            repeated: 0,
        }
    }

    fn name(&self, round: usize) -> String {
        format!("{}-{round}", self.number)
    }

    fn own_path(&self, file: usize) -> String {
        format!("own/{}/{file}", self.number)
    }

    /// Writes a private file, its line in a shared file, and now and then the
    /// contested line.
    fn write(&mut self, round: usize) -> BTreeSet<String> {
        let mine = self.own_path(round % OWN);
        let path = self.files.join(&mine);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.name(round)).unwrap();
        self.own[round % OWN] = Some(round);
        let shared = self.files.join(SHARED);
        let text = fs::read_to_string(&shared).unwrap();
        let start = place(self.number, "");
        let lines = text.lines().map(|line| match line.starts_with(&start) {
            true => place(self.number, &self.name(round)),
            false => line.to_owned(),
        });
        let lines: Vec<_> = lines.collect();
        fs::write(shared, lines.join("\n") + "\n").unwrap();
        let mut written = BTreeSet::from([mine, SHARED.to_owned()]);
        if round.is_multiple_of(WANTS) {
            fs::write(self.files.join(CONTESTED), self.wanting(round)).unwrap();
            self.wanted = Some(round);
            written.insert(CONTESTED.to_owned());
        }
        written
    }

    fn wanting(&self, round: usize) -> String {
        format!("wanted by {}\n", self.name(round))
    }

    /// Writes and merges until `stop` is set; the last merge is acknowledged.
    async fn work(mut self, place: Place, stop: Arc<AtomicBool>, told: Acknowledged) -> Self {
        let url = format!("/api/v1/workspaces/{}/merge", self.workspace);
        let mut held = false;
        for round in 0.. {
            let mut allowed = self.write(round);
            let name = self.name(round);
            let (answer, attempts) = place.post(&url, &name, &json!({"message": name})).await;
            let sequence = answer["step"].as_u64().expect("something has landed");
            let before = {
                let mut told = told.lock().unwrap();
                told.insert(name, sequence);
                told.len()
            };
            // Directories are created with the first of their files.
            allowed.extend(["own".to_owned(), format!("own/{}", self.number)]);
            let landed = paths(&answer["landed"]);
            assert!(landed.is_subset(&allowed), "only what is new: {answer}");
            let conflicts = paths(&answer["conflicts"]);
            let contested = BTreeSet::from([CONTESTED.to_owned()]);
            assert!(conflicts.is_subset(&contested), "{answer}");
            // The landing of another client does not resolve the conflict: once
            // the contested line is held, it stays held.
            if attempts == 1 {
                assert!(!held || !conflicts.is_empty(), "{answer}");
                held = !conflicts.is_empty();
            }
            self.done = round + 1;
            self.repeated += usize::from(attempts > 1);
            // Waits until another client has merged.
            let is_over = || stop.load(Ordering::Relaxed);
            let mut waiting = Waiting::new("another client merges");
            while told.lock().unwrap().len() == before && !is_over() {
                waiting.pause().await;
            }
            if is_over() {
                break;
            }
        }
        self
    }
}

/// The sequence number that each merge was acknowledged with.
type Acknowledged = Arc<Mutex<HashMap<String, u64>>>;

fn place(client: usize, what: &str) -> String {
    format!("place of {client}: {what}")
}

fn paths(list: &Value) -> BTreeSet<String> {
    let items = list.as_array().unwrap().iter();
    items
        .map(|item| item["path"].as_str().unwrap().to_owned())
        .collect()
}

/// The part of the history that has been checked.
#[derive(Default)]
struct History {
    last: Option<(u64, String)>,
    steps: HashMap<String, u64>,
    /// The content of each file according to its last version.
    files: BTreeMap<String, Value>,
}

impl History {
    /// Checks the new entries: a chain without gaps, whose versions agree with
    /// the trees.
    async fn look(&mut self, service: &Service, project: &str) {
        let from = self.last.as_ref().map_or(0, |(sequence, _)| *sequence);
        let mut entries = Vec::new();
        let mut cursor = String::new();
        'pages: loop {
            let url = format!("/api/v1/projects/{project}/steps?limit=100{cursor}");
            let page = service.get(&url).await;
            for entry in page["items"].as_array().unwrap() {
                if entry["number"].as_u64().unwrap() <= from {
                    break 'pages;
                }
                entries.push(entry.clone());
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        for entry in entries.into_iter().rev() {
            self.step(service, project, &entry).await;
        }
    }

    async fn step(&mut self, service: &Service, project: &str, entry: &Value) {
        let (sequence, snapshot) = (entry["number"].as_u64().unwrap(), &entry["snapshot"]);
        if let Some((last, head)) = &self.last {
            assert_eq!(sequence, last + 1, "a gap: {entry}");
            assert_eq!(entry["parent"], json!(head), "no chain: {entry}");
        }
        self.last = Some((sequence, snapshot.as_str().unwrap().to_owned()));
        let message = entry["message"].as_str().unwrap().to_owned();
        let twice = self.steps.insert(message, sequence);
        assert_eq!(twice, None, "applied twice: {entry}");
        let versions = service
            .get(&format!(
                "/api/v1/projects/{project}/steps/{sequence}/changes"
            ))
            .await;
        let versions = versions["items"].as_array().unwrap();
        let (from, to) = (
            entry["parent"].as_str().unwrap(),
            snapshot.as_str().unwrap(),
        );
        let url = format!("/api/v1/projects/{project}/diff?from={from}&to={to}");
        let diff = service.get(&url).await;
        let recorded: BTreeMap<_, _> = versions
            .iter()
            .map(|version| (text(version, "path"), text(version, "kind")))
            .collect();
        let found: BTreeMap<_, _> = diff["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| (text(change, "path"), text(change, "kind")))
            .map(|(path, kind)| (path, kind.replace("changed", "modified")))
            .collect();
        assert_eq!(recorded, found, "versions and trees differ: {entry}");
        for version in versions {
            self.apply(version);
        }
    }

    /// Checks that each version starts from the result of the one before.
    fn apply(&mut self, version: &Value) {
        let path = text(version, "path");
        if version["after"]["type"] == "directory" {
            return;
        }
        let before = self.files.insert(path, version["after"].clone());
        let before = before.unwrap_or(Value::Null);
        assert_eq!(version["before"], before, "{version}");
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap().to_owned()
}

async fn new_workspace(service: &Service, project: &str) -> (String, PathBuf) {
    let made = service
        .post("/api/v1/workspaces", json!({"project": project}))
        .await;
    (text(&made, "id"), made["path"].as_str().unwrap().into())
}

/// Creates a project with a file that has a line for each client, and one with a
/// single contested line.
async fn new_project(service: &Service) -> String {
    let made = service.post("/api/v1/projects", json!({"name": "p"})).await;
    let project = text(&made, "id");
    let (id, files) = new_workspace(service, &project).await;
    let between = "between\n".repeat(5);
    let places = (0..CLIENTS).map(|client| place(client, "") + "\n" + &between);
    fs::write(files.join(SHARED), places.collect::<String>()).unwrap();
    fs::write(files.join(CONTESTED), "nobody's\n").unwrap();
    let url = format!("/api/v1/workspaces/{id}/complete");
    let body = Some(json!({"message": "begin"}));
    service.expect(Method::POST, &url, body, 200).await;
    project
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_no_merge_and_doubles_none() {
    let kills = long::rounds(100, 3);
    let mut dice = long::seed();
    let mut service = Service::start_without_engine(&[]);
    service.expect_warnings();
    let project = new_project(&service).await;
    let place = Place {
        http: service.http.clone(),
        url: Arc::new(Mutex::new(service.url.clone())),
        pause: Arc::default(),
    };
    let (stop, told) = (Arc::new(AtomicBool::new(false)), Acknowledged::default());
    // All start from the same head: no client has seen the changes of another.
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        clients.push(Client::new(&service, &project, number).await);
    }
    let work = |client: Client| client.work(place.clone(), stop.clone(), told.clone());
    let working: Vec<_> = clients
        .into_iter()
        .map(|client| tokio::spawn(work(client)))
        .collect();
    let mut history = History::default();
    for _ in 0..kills {
        dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        // The seed decides when the kill comes.
        let merged = || told.lock().unwrap().len();
        let last = merged() + ((dice >> 33) % MERGES) as usize;
        eventually("clients merge", async || merged() > last).await;
        service.kill();
        let acknowledged = told.lock().unwrap().clone();
        service.run();
        *place.url.lock().unwrap() = service.url.clone();
        // The clients send interrupted merges again, and these wait until this
        // lock is released.
        let _paused = place.pause.write().await;
        history.look(&service, &project).await;
        for (name, sequence) in acknowledged {
            assert_eq!(history.steps.get(&name), Some(&sequence), "{name} is lost");
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut clients = Vec::new();
    for client in working {
        clients.push(client.await.unwrap());
    }
    history.look(&service, &project).await;
    let mut expected = told.lock().unwrap().clone();
    expected.insert("begin".into(), 1);
    assert_eq!(
        history.steps, expected,
        "the history has every acknowledged landing"
    );
    check_files(&service, &project, &clients, &history).await;
    check_held(&service, &project, &clients).await;
    let repeated: usize = clients.iter().map(|client| client.repeated).sum();
    let merges: usize = clients.iter().map(|client| client.done).sum();
    long::note(format!(
        "{kills} kills under {merges} merges of {CLIENTS} clients; {repeated} were asked for again"
    ));
    assert!(repeated > 0, "no kill hit a merge");
    assert_eq!(service.complaints(), Vec::<String>::new());
}

/// Checks that the head has the last version of every file that lands.
async fn check_files(service: &Service, project: &str, clients: &[Client], history: &History) {
    let shared = file(service, project, SHARED).await;
    for client in clients {
        for (number, round) in client.own.iter().enumerate() {
            let Some(round) = round else { continue };
            let found = file(service, project, &client.own_path(number)).await;
            assert_eq!(found, client.name(*round));
        }
        let last = place(client.number, &client.name(client.done - 1));
        assert!(shared.lines().any(|line| line == last), "{last}: {shared}");
    }
    assert_eq!(shared.lines().count(), CLIENTS * 6);
    for path in history.files.keys() {
        let (parent, _) = path.rsplit_once('/').unwrap_or(("", path));
        let url = format!("/api/v1/projects/{project}/files/list?path={parent}&limit=100");
        let tree = service.get(&url).await;
        let entry = tree["items"].as_array().unwrap().iter();
        let mut entry = entry.filter(|entry| entry["path"] == **path);
        let (entry, version) = (entry.next().unwrap(), &history.files[path]);
        let (id, mode) = (text(version, "id"), text(version, "mode"));
        assert_eq!(text(entry, "etag"), format!("\"{id}\""), "{path}");
        assert_eq!(text(entry, "mode"), format!("0{mode}"), "{path}");
        assert_eq!(entry["size"], version["size"], "{path}");
        assert_eq!(entry["kind"], version["type"], "{path}");
    }
}

/// Checks that one client has the contested line, that the last changes of the
/// others are in open reviews, and that merging again changes nothing.
async fn check_held(service: &Service, project: &str, clients: &[Client]) {
    let url = format!("/api/v1/reviews?project={project}&state=open&limit=100");
    let open = service.get(&url).await;
    let mut open: HashMap<_, _> = open["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|review| (text(review, "workspace"), text(review, "id")))
        .collect();
    let head = file(service, project, CONTESTED).await;
    let mut winners = 0;
    for client in clients {
        let wanted = client.wanting(client.wanted.unwrap());
        let url = format!("/api/v1/workspaces/{}/merge", client.workspace);
        let again = service.expect(Method::POST, &url, None, 200).await;
        assert_eq!(again["landedCount"], 0, "applied twice: {again}");
        if head == wanted {
            winners += 1;
            assert_eq!(again["conflictCount"], 0, "{again}");
            continue;
        }
        let review = open.remove(&client.workspace);
        let review = review.unwrap_or_else(|| panic!("{wanted:?} is lost; {head:?}; {again}"));
        let now = text(&again["conflicts"][0], "reviewId");
        if now != review {
            // The winner has changed the line since.
            let old = service.get(&format!("/api/v1/reviews/{review}")).await;
            let known = (text(&old, "state"), text(&old, "successor"));
            assert_eq!(known, ("superseded".to_owned(), now.clone()), "{again}");
        }
        let url = format!("/api/v1/reviews/{now}/content?side=workspace");
        let held = service.request(Method::GET, &url).send().await.unwrap();
        assert_eq!(held.text().await.unwrap(), wanted);
    }
    assert_eq!((winners, open.len()), (1, 0), "{open:?}");
}

async fn file(service: &Service, project: &str, path: &str) -> String {
    let url = format!("/api/v1/projects/{project}/files?path={path}");
    let answer = service.request(Method::GET, &url).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.text().await.unwrap()
}
