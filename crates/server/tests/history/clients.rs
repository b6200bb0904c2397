//! Clients that change and read projects, and record the responses.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use elevo_testkit::wait::Waiting;
use serde_json::{Value, json};

use crate::checker::{Answer, Asks, Attempt, Effect, Read, Request, Tick};
use crate::harness::{KEY, Service};

/// The server, which is killed and restarted, and the clock of the run.
#[derive(Debug)]
pub(crate) struct Place {
    http: reqwest::Client,
    url: Mutex<String>,
    projects: Vec<String>,
    ticks: AtomicU64,
    pub(crate) acknowledged: AtomicUsize,
    pub(crate) stop: AtomicBool,
}

impl Place {
    pub(crate) fn new(service: &Service, projects: Vec<String>) -> Self {
        Self {
            http: service.http.clone(),
            url: Mutex::new(service.url.clone()),
            projects,
            ticks: AtomicU64::new(0),
            acknowledged: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Sets the new address of the server.
    pub(crate) fn moved(&self, url: &str) {
        *self.url.lock().unwrap() = url.to_owned();
    }

    fn tick(&self) -> Tick {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url.lock().unwrap())
    }
}

/// A request with everything that is needed to send it again.
struct Sent {
    path: String,
    body: Value,
    request: Request,
}

impl Sent {
    fn is_done(&self) -> bool {
        let mut attempts = self.request.attempts.iter();
        attempts.any(|attempt| matches!(attempt.answer, Answer::Done { .. }))
    }
}

/// A workspace of a client.
struct Ws {
    tag: String,
    id: String,
    files: PathBuf,
    project: usize,
}

pub(crate) struct Client {
    number: usize,
    dice: u64,
    count: usize,
    place: Arc<Place>,
    sent: Vec<Sent>,
    reads: Vec<Read>,
    /// Landings that were not reverted, by project and head.
    landed: Vec<(usize, String)>,
    workspace: Option<Ws>,
}

impl Client {
    pub(crate) fn new(number: usize, seed: u64, place: Arc<Place>) -> Self {
        Self {
            number,
            dice: seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            count: 0,
            place,
            sent: Vec::new(),
            reads: Vec::new(),
            landed: Vec::new(),
            workspace: None,
        }
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.dice = self
            .dice
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        ((self.dice >> 33) % sides as u64) as usize
    }

    fn tag(&mut self) -> String {
        self.count += 1;
        format!("c{}-{}", self.number, self.count)
    }

    /// Works until the end of the run; returns the recorded requests and reads.
    pub(crate) async fn work(mut self) -> (Vec<Request>, Vec<Read>) {
        while !self.place.stop.load(Ordering::Relaxed) {
            match self.roll(16) {
                0 => self.make_project().await,
                1..=4 => self.use_workspace().await,
                5 => self.revert().await,
                6..=7 => self.repeat().await,
                8..=11 => self.apply().await,
                _ => self.read().await,
            }
        }
        let requests = self.sent.into_iter().map(|sent| sent.request);
        (requests.collect(), self.reads)
    }

    /// Reads a head. A failed read is not recorded.
    async fn read(&mut self) {
        let project = self.roll(self.place.projects.len());
        let path = format!("/api/v1/projects/{}", self.place.projects[project]);
        let sent = self.place.tick();
        let request = self.place.http.get(self.place.at(&path)).bearer_auth(KEY);
        let Ok(answer) = request.send().await else {
            return;
        };
        let is_good = answer.status() == 200;
        let Ok(body) = answer.json::<Value>().await else {
            return;
        };
        let ended = self.place.tick();
        if is_good {
            self.reads.push(Read {
                project,
                sent,
                ended,
                sequence: body["step"].as_u64().unwrap(),
                head: body["head"].as_str().unwrap().to_owned(),
            });
            self.place.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn apply(&mut self) {
        let (tag, project) = (self.tag(), self.roll(self.place.projects.len()));
        let path = format!("/api/v1/projects/{}/apply", self.place.projects[project]);
        let file = format!("{}/{tag}", self.number);
        let files = json!([{"path": file, "content": tag}]);
        let body = json!({"merge": {"message": tag}, "files": files});
        self.land(tag, path, body, project, None).await;
    }

    /// Reverts one of the client's landings.
    async fn revert(&mut self) {
        if self.landed.is_empty() {
            return;
        }
        let which = self.roll(self.landed.len());
        let (project, head) = self.landed.swap_remove(which);
        let tag = self.tag();
        let path = format!("/api/v1/projects/{}/revert", self.place.projects[project]);
        let body = json!({"merge": {"message": tag}, "snapshot": head});
        let before = self.landed.len();
        self.land(tag, path, body, project, None).await;
        // Reverting a revert is tested elsewhere.
        self.landed.truncate(before);
    }

    /// Creates a workspace, or writes to the existing one and merges or completes
    /// it.
    async fn use_workspace(&mut self) {
        let Some(ws) = self.workspace.take() else {
            return self.make_workspace().await;
        };
        let tag = self.tag();
        let is_last = self.roll(3) == 0;
        let what = if is_last { "complete" } else { "merge" };
        std::fs::write(ws.files.join(&tag), &tag).unwrap();
        let path = format!("/api/v1/workspaces/{}/{what}", ws.id);
        let body = json!({"message": tag});
        let ends = is_last.then(|| ws.tag.clone());
        self.land(tag, path, body, ws.project, ends).await;
        self.workspace = Some(ws).filter(|_| !is_last);
    }

    async fn make_workspace(&mut self) {
        let (tag, project) = (self.tag(), self.roll(self.place.projects.len()));
        let body = json!({"name": tag, "project": self.place.projects[project]});
        let made = self.make(tag.clone(), "/api/v1/workspaces".into(), body);
        if let Some(made) = made.await {
            self.workspace = Some(Ws {
                tag,
                id: made["id"].as_str().unwrap().to_owned(),
                files: made["path"].as_str().unwrap().into(),
                project,
            });
        }
    }

    async fn make_project(&mut self) {
        let tag = self.tag();
        let body = json!({"name": tag});
        self.make(tag, "/api/v1/projects".into(), body).await;
    }

    async fn make(&mut self, tag: String, path: String, body: Value) -> Option<Value> {
        self.send(tag, Asks::Make, path, body).await
    }

    async fn land(
        &mut self,
        tag: String,
        path: String,
        body: Value,
        project: usize,
        ends: Option<String>,
    ) {
        let asks = Asks::Land { project, ends };
        if let Some(landed) = self.send(tag, asks, path, body).await {
            let head = landed["head"].as_str().unwrap().to_owned();
            self.landed.push((project, head));
        }
    }

    /// Sends a request until it gets a response, or the client gives up. Returns
    /// the body of a successful response.
    async fn send(&mut self, tag: String, asks: Asks, path: String, body: Value) -> Option<Value> {
        let attempts = Vec::new();
        let request = Request {
            tag,
            asks,
            attempts,
        };
        let mut sent = Sent {
            path,
            body,
            request,
        };
        // The server is killed now and then; a client cannot notice when it is back.
        let mut waiting = Waiting::new("the server responds");
        let done = loop {
            match self.attempt(&mut sent).await {
                Some(Answer::Done { body, .. }) => break serde_json::from_str(&body).ok(),
                // One request in eight is never sent again.
                Some(Answer::Unknown) if self.roll(8) > 0 => {}
                Some(Answer::Refused | Answer::Unknown) => break None,
                None => {}
            }
            waiting.pause().await;
        };
        self.sent.push(sent);
        done
    }

    /// Sends an old request once more.
    async fn repeat(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let which = self.roll(self.sent.len());
        let mut sent = self.sent.swap_remove(which);
        if sent.is_done() {
            self.attempt(&mut sent).await;
        }
        self.sent.push(sent);
    }

    /// Sends a request once. `None` if it did not reach a server.
    async fn attempt(&self, sent: &mut Sent) -> Option<Answer> {
        let began = self.place.tick();
        let request = self.place.http.post(self.place.at(&sent.path));
        let request = request.bearer_auth(KEY).json(&sent.body);
        let request = request.header("Idempotency-Key", &sent.request.tag);
        let answer = match request.send().await {
            Err(error) if error.is_connect() => return None,
            Err(_) => Answer::Unknown,
            Ok(answer) => read(answer, &sent.request.asks).await,
        };
        let ended = self.place.tick();
        if matches!(answer, Answer::Done { .. }) {
            self.place.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        sent.request.attempts.push(Attempt {
            sent: began,
            ended,
            answer: answer.clone(),
        });
        Some(answer)
    }
}

async fn read(answer: reqwest::Response, asks: &Asks) -> Answer {
    let status = answer.status().as_u16();
    let is_replayed = answer.headers().contains_key("idempotency-replayed");
    // An incomplete response does not count.
    let Ok(body) = answer.text().await else {
        return Answer::Unknown;
    };
    let Ok(value) = serde_json::from_str::<Value>(&body) else {
        return Answer::Unknown;
    };
    let is_at_work = value["error"]["name"] == "IDEMPOTENCY_RUNNING";
    match status {
        200 | 201 => Answer::Done {
            effect: effect(&value, asks),
            body,
            is_replayed,
        },
        408 | 429 | 500.. => Answer::Unknown,
        409 if is_at_work => Answer::Unknown,
        _ => {
            eprintln!("refused: {status} {body}");
            Answer::Refused
        }
    }
}

fn effect(value: &Value, asks: &Asks) -> Effect {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    match asks {
        Asks::Make => Effect::Made(text("id")),
        // These clients always change something: a response without a sequence
        // number becomes 0, which is in no log.
        Asks::Land { .. } => {
            Effect::Landed(value["step"].as_u64().unwrap_or_default(), text("head"))
        }
    }
}
