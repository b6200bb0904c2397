//! Two API servers with one catalog and one store: 100 agents land changes on one project by `apply`, half
//! of them at each server. Separate changes must all land, and of two changes of the same line one must
//! land and the other be held for review. The checker reads the history of all requests; one more run has
//! faults between the servers and the databases.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use elevo_testkit::postgres::Database;
use elevo_testkit::wire::Wire;
use futures::future::try_join_all;
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::heads::{tell_violations, with_faults};
use super::history::{Action, Entry, History, Operation, Outcome};
use super::store::Place;
use super::{Bench, fixture};
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::server::Server;
use crate::suite::say;

const AGENTS: usize = 100;
/// Changes of each agent.
const CHANGES: usize = 20;
/// Every so many changes, two agents change the same line.
const OVERLAP_EVERY: usize = 5;
/// A file that every pair of agents changes.
const SHARED: &str = "first line\nlast line\n";
/// Time after which a request that fails again and again is a fault of the server.
const PATIENCE: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_millis(100);
const SEED: u64 = 24;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let changes = bench.count(CHANGES).max(OVERLAP_EVERY);
    let quiet = land(bench, "quiet", changes, None)?;
    let of_quiet = tell_violations(&quiet.history);
    say(&format!("{of_quiet} violations without faults"));
    let faulty = land(bench, "faulty", changes, Some(SEED))?;
    let count = |name: &str, value: f64| Row {
        name: name.into(),
        unit: Unit::Count,
        ours: Samples::of(value).figure(),
        peer: None,
        bar: Some(Bar::AtMost(0.0)),
    };
    let all = format!("of {AGENTS} agents at 2 servers");
    Ok(vec![
        Row {
            name: format!("time per landing {all} (20 ms is 50 a second)"),
            unit: Unit::Milliseconds,
            ours: Samples::of(quiet.seconds / quiet.landed as f64).figure(),
            peer: None,
            bar: Some(Bar::AtMost(20.0)),
        },
        count(&format!("changes {all} that are wrong"), quiet.wrong as f64),
        count(&format!("violations found in the history {all}"), of_quiet),
        count(
            &format!("changes {all} that are wrong, with faults"),
            faulty.wrong as f64,
        ),
        count(
            &format!("violations found in the history {all}, with faults"),
            tell_violations(&faulty.history),
        ),
    ])
}

/// The result of a run.
struct Run {
    seconds: f64,
    landed: usize,
    /// Separate changes that did not land, overlapping ones that both landed or both did not, and files
    /// with other content than landed.
    wrong: usize,
    history: History,
}

/// The databases of the servers, and a proxy in front of each for each server.
struct Site {
    store: Place,
    catalog: Database,
    /// Two for each server: of the catalog, and of the store.
    wires: Vec<Wire>,
}

impl Site {
    fn new() -> Result<Self> {
        let (store, catalog) = (Place::new()?, fixture::database()?);
        let pair = |_| [catalog.wire(), store.database.wire()];
        let wires = (0..2).flat_map(pair).collect();
        Ok(Self {
            store,
            catalog,
            wires,
        })
    }

    fn server(&self, bench: &Bench, name: &str, number: usize) -> Result<Server> {
        let scratch = bench.scratch.join(format!("{name}-{number}"));
        std::fs::create_dir_all(scratch.join("data"))?;
        let catalog = self.catalog.url_through(&self.wires[2 * number]);
        let index = self.store.database.url_through(&self.wires[2 * number + 1]);
        let s3 = &self.store.s3;
        Server::start_with(
            &scratch,
            &[
                ("DOCKER_HOST", "unix:///nonexistent/docker.sock"),
                ("CATALOG_URL", &catalog),
                ("STORE_URL", &index),
                ("S3_ENDPOINT", &s3.endpoint),
                ("S3_BUCKET", &s3.bucket),
                ("S3_PREFIX", &s3.prefix),
                ("S3_ACCESS_KEY", &s3.key),
                ("S3_SECRET_KEY", &s3.secret),
            ],
        )
    }
}

fn land(bench: &Bench, name: &str, changes: usize, seed: Option<u64>) -> Result<Run> {
    let site = Site::new()?;
    // One after the other: the first one creates the schemas.
    let servers = [site.server(bench, name, 0)?, site.server(bench, name, 1)?];
    bench.runtime.block_on(async {
        let project = servers[0]
            .post("/api/v1/projects", &json!({"name": "shared"}))
            .await?;
        let id = project["id"].as_str().context("it has an id")?;
        let work = Work {
            servers: &servers,
            url: format!("/api/v1/projects/{id}"),
            base: furnish(&servers[0], id).await?,
            changes,
            operations: Mutex::default(),
            outcomes: Mutex::default(),
        };
        let first = work.head(0).await?.1;
        let began = Instant::now();
        match seed {
            None => work.all().await?,
            Some(seed) => {
                let handle = tokio::runtime::Handle::current();
                tokio::task::block_in_place(|| {
                    with_faults(&site.wires, seed, || handle.block_on(work.all()))
                })?;
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        work.settle(first, seconds).await
    })
}

/// Adds the files that pairs of agents change; returns the head.
async fn furnish(server: &Server, project: &str) -> Result<String> {
    let file = |pair| json!({"path": format!("shared/{pair}.txt"), "content": SHARED});
    let files: Vec<_> = (0..AGENTS / 2).map(file).collect();
    let url = format!("/api/v1/projects/{project}/apply");
    let start = json!({"files": files, "merge": {"message": "start"}});
    let head = server.post(&url, &start).await?["head"]
        .as_str()
        .map(str::to_owned);
    head.context("the project has a head")
}

/// The work of all agents.
struct Work<'a> {
    servers: &'a [Server; 2],
    url: String,
    /// The head that overlapping changes are relative to.
    base: String,
    changes: usize,
    operations: Mutex<Vec<Operation>>,
    /// Whether each change has landed; `None` if its outcome is not known.
    outcomes: Mutex<Vec<(String, Option<bool>)>>,
}

impl Work<'_> {
    async fn all(&self) -> Result<()> {
        try_join_all((0..AGENTS).map(|agent| self.agent(agent))).await?;
        Ok(())
    }

    async fn agent(&self, agent: usize) -> Result<()> {
        for number in 0..self.changes {
            if number % OVERLAP_EVERY == OVERLAP_EVERY - 1 {
                self.apply(
                    agent,
                    &format!("overlap {number} of {agent}"),
                    self.overlap(agent, number),
                )
                .await?;
            } else {
                let key = format!("change {number} of {agent}");
                let path = format!("agents/{agent}/file-{number}.txt");
                let files = json!([{"path": path, "content": key}]);
                self.apply(
                    agent,
                    &key,
                    json!({"files": files, "merge": {"message": key}}),
                )
                .await?;
            }
            if number % OVERLAP_EVERY == 0 {
                self.read(agent).await?;
            }
        }
        Ok(())
    }

    /// A change of the line that the other agent of the pair also changes. The file is one for each pair
    /// and number.
    fn overlap(&self, agent: usize, number: usize) -> Value {
        let path = format!("shared/{}.txt", agent / 2);
        let content = format!("line {number} of {agent}\nlast line\n");
        json!({
            "base": self.base,
            "files": [{"path": path, "content": content}],
            "merge": {"message": format!("overlap {number} of {agent}")},
        })
    }

    /// Repeats a request until its outcome is known.
    async fn apply(&self, agent: usize, key: &str, body: Value) -> Result<()> {
        let server = &self.servers[agent % 2];
        let url = format!("{}/apply", self.url);
        let (first, began) = (Instant::now(), fixture::nanoseconds());
        let mut last = String::new();
        let outcome = loop {
            let request = server.request(Method::POST, &url).json(&body);
            let request = request.header("Idempotency-Key", key.replace(' ', "-"));
            if let Ok(answer) = request.send().await {
                let status = answer.status();
                let value: Value = answer.json().await.unwrap_or_default();
                if status.is_success() {
                    break Some(value);
                }
                if value["error"]["name"] == "OUTCOME_UNKNOWN" {
                    break None;
                }
                let retry = value["error"]["retry"].as_str().unwrap_or("later");
                ensure!(
                    matches!(retry, "later" | "unknown"),
                    "{key}: {status} {value}"
                );
                last = format!("{status} {value}");
            }
            ensure!(
                first.elapsed() < PATIENCE,
                "{key} fails again and again: {last}"
            );
            sleep(RETRY).await;
        };
        let ended = fixture::nanoseconds();
        let count = |name: &str| {
            let count = outcome.as_ref().and_then(|value| value[name].as_u64());
            count.unwrap_or_default()
        };
        // A repetition finds the change of an attempt whose response was lost.
        let is_there = count("landedCount") + count("same") > 0;
        let known = outcome.as_ref().map(|_| is_there);
        self.outcomes.lock().push((key.to_owned(), known));
        if known == Some(false) {
            return Ok(());
        }
        let step = outcome.as_ref().and_then(|value| value["step"].as_u64());
        let outcome = match step.filter(|_| count("landedCount") > 0) {
            Some(step) => Outcome::Landed(step),
            None => Outcome::Unknown,
        };
        self.record(
            began,
            ended,
            Action::Land {
                request: key.to_owned(),
                snapshot: String::new(),
                outcome,
            },
        );
        Ok(())
    }

    async fn read(&self, agent: usize) -> Result<()> {
        let first = Instant::now();
        loop {
            let began = fixture::nanoseconds();
            match self.head(agent % 2).await {
                Ok((sequence, head)) => {
                    self.record(
                        began,
                        fixture::nanoseconds(),
                        Action::Read { sequence, head },
                    );
                    return Ok(());
                }
                Err(error) => ensure!(first.elapsed() < PATIENCE, "cannot read the head: {error}"),
            }
            sleep(RETRY).await;
        }
    }

    async fn head(&self, server: usize) -> Result<(u64, String)> {
        let found = self.servers[server].get(&self.url).await?;
        let step = found["step"].as_u64().context("it has a step")?;
        let head = found["head"].as_str().context("it has a head")?;
        Ok((step, head.to_owned()))
    }

    fn record(&self, began: u64, ended: u64, action: Action) {
        self.operations.lock().push(Operation {
            began,
            ended,
            action,
        });
    }

    /// Reads the log, and compares it and the files with the outcomes.
    async fn settle(self, first: String, seconds: f64) -> Result<Run> {
        // The first step, which added the shared files, is not a part of the history.
        let log = self.log().await?;
        let mut operations = std::mem::take(&mut *self.operations.lock());
        for operation in &mut operations {
            // The response has the number of the step, and not its head.
            if let Action::Land {
                request, snapshot, ..
            } = &mut operation.action
                && let Some(entry) = log.iter().find(|entry| entry.request == *request)
            {
                snapshot.clone_from(&entry.snapshot);
            }
            shift(&mut operation.action);
        }
        let outcomes = std::mem::take(&mut *self.outcomes.lock());
        let has_landed = |key: &str| log.iter().any(|entry| entry.request == key);
        let mut wrong = 0;
        for (key, outcome) in &outcomes {
            let landed = has_landed(key);
            let is_separate = key.starts_with("change");
            let is_wrong = outcome.is_some_and(|outcome| outcome != landed)
                || (is_separate && !landed && outcome.is_some());
            if is_wrong {
                say(&format!(
                    "wrong: {key}: reported {outcome:?}, landed {landed}"
                ));
                wrong += 1;
            }
        }
        wrong += count_wrong_pairs(&outcomes, &has_landed);
        for entry in log
            .iter()
            .filter(|entry| entry.request.starts_with("change"))
        {
            let words: Vec<_> = entry.request.split(' ').collect();
            let path = format!("agents/{}/file-{}.txt", words[3], words[1]);
            let url = format!("{}/files?path={path}", self.url);
            let text = self.read_at(0, &url).await?;
            if text != entry.request {
                say(&format!("wrong: {path} has {text:?}"));
                wrong += 1;
            }
        }
        let landed = log.len();
        say(&format!(
            "{landed} landings, {} requests, {wrong} wrong",
            outcomes.len()
        ));
        let history = History {
            first,
            log,
            operations,
            followers: Vec::new(),
        };
        Ok(Run {
            seconds,
            landed,
            wrong,
            history,
        })
    }

    /// Returns the response to a request after the faults. The last connections of the faults may end
    /// only now.
    async fn read_at(&self, server: usize, url: &str) -> Result<String> {
        let first = Instant::now();
        loop {
            let answer = self.servers[server]
                .request(Method::GET, url)
                .send()
                .await?;
            if answer.status().is_success() || first.elapsed() > PATIENCE {
                return Ok(answer.text().await?);
            }
            sleep(RETRY).await;
        }
    }

    /// The steps after the first one, with numbers from 1.
    async fn log(&self) -> Result<Vec<Entry>> {
        let mut log = Vec::new();
        let mut cursor = None::<String>;
        loop {
            let after = cursor.as_ref().map(|cursor| format!("&cursor={cursor}"));
            let url = format!("{}/steps?limit=100{}", self.url, after.unwrap_or_default());
            let page: Value = serde_json::from_str(&self.read_at(1, &url).await?)?;
            for step in page["items"].as_array().context("it has items")? {
                let text = |name: &str| step[name].as_str().unwrap_or_default().to_owned();
                let number = step["number"].as_u64().context("a step has a number")?;
                if number > 1 {
                    log.push(Entry {
                        sequence: number - 1,
                        snapshot: text("snapshot"),
                        parent: text("parent"),
                        request: text("message"),
                    });
                }
            }
            match page["next"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        log.sort_by_key(|entry| entry.sequence);
        Ok(log)
    }
}

/// The first step is not a part of the history.
fn shift(action: &mut Action) {
    match action {
        Action::Land {
            outcome: Outcome::Landed(sequence),
            ..
        }
        | Action::Read { sequence, .. } => *sequence -= 1,
        _ => {}
    }
}

/// Counts the files of which not exactly one overlapping change has landed. All of them are relative to
/// the same base.
fn count_wrong_pairs(outcomes: &[(String, Option<bool>)], landed: &dyn Fn(&str) -> bool) -> usize {
    let mut wrong = 0;
    for pair in 0..AGENTS / 2 {
        let of_pair = |key: &&(String, Option<bool>)| {
            let agent = key
                .0
                .rsplit(' ')
                .next()
                .and_then(|agent| agent.parse().ok());
            key.0.starts_with("overlap") && agent.is_some_and(|agent: usize| agent / 2 == pair)
        };
        let keys = outcomes.iter().filter(of_pair);
        let count = keys.filter(|(key, _)| landed(key)).count();
        if count != 1 {
            say(&format!(
                "wrong: {count} overlapping changes of pair {pair} landed"
            ));
            wrong += 1;
        }
    }
    wrong
}
