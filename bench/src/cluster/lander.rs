//! A client that lands requests by compare-and-swap on the head, and records each call.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use elevo_catalog::{Begun, Error, IdempotentRequest, Kind, PostgresCatalog, RequestRun};
use elevo_core::Timestamp;
use elevo_objects::SnapshotId;
use tokio::time::sleep;

use super::fixture;
use super::history::{Action, KeyState, Operation, Outcome};

/// Paths that one landing changes.
const CHANGED: usize = 10;
/// Pause before a retry, unless another landing was the cause.
const RETRY: Duration = Duration::from_millis(10);
/// Longest time for one request, with all retries.
const PATIENCE: Duration = Duration::from_secs(60);

/// One client. Its calls are in [`operations`](Self::operations), in their order.
pub(super) struct Lander<'a> {
    catalog: &'a PostgresCatalog,
    /// Differs from that of every other client of the project.
    name: String,
    head: SnapshotId,
    attempts: u64,
    pub(super) operations: Vec<Operation>,
    /// Calls that failed, for the report.
    pub(super) failures: Failures,
}

/// Numbers of failed calls by what a retry can expect.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    /// Nothing changed; a retry helps.
    pub(super) busy: u64,
    /// The outcome is unknown; the retry has the same name.
    pub(super) unknown: u64,
}

impl<'a> Lander<'a> {
    pub(super) fn new(catalog: &'a PostgresCatalog, name: String) -> Self {
        Self {
            catalog,
            name,
            head: fixture::first(),
            attempts: 0,
            operations: Vec::new(),
            failures: Failures::default(),
        }
    }

    /// Reads the project.
    pub(super) async fn read(&mut self) -> Result<()> {
        let id = fixture::project()?;
        let began = fixture::nanoseconds();
        match self.catalog.project(fixture::TENANT, &id).await {
            Ok(found) => {
                let project = found.context("the project exists")?;
                self.head = project.head;
                let (sequence, head) = (project.sequence, project.head.0.to_string());
                self.record(began, Action::Read { sequence, head });
                Ok(())
            }
            // A read that fails shows nothing.
            Err(error) => self.note(error),
        }
    }

    /// Lands a request once, with as many attempts as it takes; returns its sequence number.
    pub(super) async fn land(&mut self, request: &str) -> Result<u64> {
        let started = Instant::now();
        loop {
            ensure!(started.elapsed() < PATIENCE, "{request} does not land");
            if let Some(sequence) = self.attempt(request).await? {
                return Ok(sequence);
            }
        }
    }

    async fn attempt(&mut self, request: &str) -> Result<Option<u64>> {
        self.attempts += 1;
        let next = fixture::snapshot(&format!("{} {}", self.name, self.attempts));
        let landing = fixture::landing(self.head, next, Some(request.to_owned()), CHANGED)?;
        let began = fixture::nanoseconds();
        let landed = self.catalog.land(&landing).await;
        let (outcome, error) = match landed {
            Ok(landed) => {
                self.head = next;
                (Outcome::Landed(landed.sequence), None)
            }
            Err(Error::HeadMoved { head, .. }) => {
                self.head = head;
                (Outcome::Refused, None)
            }
            Err(Error::Repeated { landed, .. }) => {
                let sequence = landed.sequence.context("nothing was held")?;
                let head = landed.head.0.to_string();
                (Outcome::Repeated { sequence, head }, None)
            }
            Err(error @ Error::Busy) => (Outcome::Refused, Some(error)),
            Err(error) => (Outcome::Unknown, Some(error)),
        };
        let known = match &outcome {
            Outcome::Landed(sequence) | Outcome::Repeated { sequence, .. } => Some(*sequence),
            Outcome::Refused | Outcome::Unknown => None,
        };
        let action = Action::Land {
            request: request.to_owned(),
            snapshot: next.0.to_string(),
            outcome,
        };
        self.record(began, action);
        if let Some(error) = error {
            self.note(error)?;
            sleep(RETRY).await;
        }
        Ok(known)
    }

    /// Carries out an idempotent request: begins it, lands, and finishes it. Returns `false` if another
    /// client runs it.
    pub(super) async fn carry_out(&mut self, key: &str) -> Result<bool> {
        match self.begin(key).await? {
            KeyState::Running => Ok(false),
            KeyState::Done(_) => Ok(true),
            KeyState::Taken => {
                let sequence = self.land(key).await?;
                self.finish(key, sequence).await?;
                Ok(true)
            }
        }
    }

    async fn begin(&mut self, key: &str) -> Result<KeyState> {
        let started = Instant::now();
        loop {
            ensure!(started.elapsed() < PATIENCE, "{key} does not begin");
            let now = fixture::now()?;
            let keep_until = Timestamp::new(now.seconds() + 3600, 0).context("it is a time")?;
            let request = IdempotentRequest {
                run: self.run(key),
                fingerprint: [7; 32],
                id: format!("{key} of {}", self.name),
                now,
                keep_until,
            };
            let began = fixture::nanoseconds();
            let begun = match self.catalog.begin(&request).await {
                Ok(Begun::New | Begun::Again { .. }) => KeyState::Taken,
                Ok(Begun::Running) => KeyState::Running,
                Ok(Begun::Done { body, .. }) => KeyState::Done(sequence_in(body)?),
                Ok(Begun::Mismatch) => bail!("{key} has another content"),
                Err(error) => {
                    // It may have begun: then the next call begins it again.
                    self.note(error)?;
                    sleep(RETRY).await;
                    continue;
                }
            };
            let action = Action::Begin {
                key: key.to_owned(),
                process: self.name.clone(),
                begun: begun.clone(),
            };
            self.record(began, action);
            return Ok(begun);
        }
    }

    async fn finish(&mut self, key: &str, sequence: u64) -> Result<()> {
        let started = Instant::now();
        let mut is_repeated = false;
        loop {
            ensure!(started.elapsed() < PATIENCE, "{key} does not finish");
            let body = sequence.to_string();
            let run = self.run(key);
            let began = fixture::nanoseconds();
            let finished = self.catalog.finish(&run, 200, Some(body.as_bytes()));
            let finished = finished.await;
            let is_acknowledged = match &finished {
                Ok(()) => true,
                // An earlier attempt has finished it.
                Err(Error::NotFound {
                    what: Kind::Request,
                }) if is_repeated => true,
                Err(_) => false,
            };
            let action = Action::Finish {
                key: key.to_owned(),
                process: self.name.clone(),
                sequence,
                is_acknowledged,
            };
            self.record(began, action);
            match finished {
                Err(error) if !is_acknowledged => self.note(error)?,
                _ => return Ok(()),
            }
            is_repeated = true;
            sleep(RETRY).await;
        }
    }

    fn run(&self, key: &str) -> RequestRun {
        RequestRun {
            tenant: fixture::TENANT,
            name: *fixture::hash(key).as_bytes(),
            process: self.name.clone(),
        }
    }

    fn record(&mut self, began: u64, action: Action) {
        let ended = fixture::nanoseconds();
        self.operations.push(Operation {
            began,
            ended,
            action,
        });
    }

    /// Counts a failure that a retry can follow; returns every other one.
    fn note(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Busy => self.failures.busy += 1,
            Error::Failed(_) => self.failures.unknown += 1,
            other => return Err(other.into()),
        }
        Ok(())
    }
}

fn sequence_in(body: Option<Vec<u8>>) -> Result<u64> {
    let body = body.context("the request was finished with a body")?;
    Ok(String::from_utf8(body)?.parse()?)
}
