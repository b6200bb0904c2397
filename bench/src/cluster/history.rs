//! Checks what several processes recorded while they moved one head: the log, the order of landings
//! and reads, the idempotency keys, the leases and the events.
//!
//! The numbers in the log make the order visible, so no search for an order is needed. All times are
//! nanoseconds of the machine's monotonic clock, which all processes share. An operation whose outcome
//! is unknown may happen at any time after its beginning, or never.

mod keys;
mod leases;
mod order;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// A call of the catalog, as its caller saw it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Operation {
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) action: Action,
}

/// The calls that are recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Action {
    /// An attempt to make `snapshot` the head. No two attempts have the same snapshot.
    Land {
        request: String,
        snapshot: String,
        outcome: Outcome,
    },
    /// A read of the project.
    Read { sequence: u64, head: String },
    /// A call of `begin`.
    Begin {
        key: String,
        process: String,
        begun: KeyState,
    },
    /// An attempt to finish a request with the sequence number of its landing.
    Finish {
        key: String,
        process: String,
        sequence: u64,
        /// Whether the request is known to be finished by this call.
        is_acknowledged: bool,
    },
    /// A lease that was taken or renewed, for this time.
    Take {
        session: u64,
        token: u64,
        nanoseconds: u64,
    },
    /// A lease that its holder gives up.
    Release { session: u64, token: u64 },
}

/// The outcome of an attempt to land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
    Landed(u64),
    /// An earlier attempt of the request has landed.
    Repeated {
        sequence: u64,
        head: String,
    },
    /// The catalog reported that nothing changed.
    Refused,
    Unknown,
}

/// The answer to a call of `begin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum KeyState {
    /// The caller runs the request from now on.
    Taken,
    Running,
    /// The request was finished with this sequence number.
    Done(u64),
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) sequence: u64,
    pub(super) snapshot: String,
    pub(super) parent: String,
    pub(super) request: String,
}

/// Everything that was recorded, and the log at the end.
#[derive(Clone, Debug)]
pub(super) struct History {
    /// The head before the first landing.
    pub(super) first: String,
    /// Oldest first.
    pub(super) log: Vec<Entry>,
    pub(super) operations: Vec<Operation>,
    /// The events of landings that each follower saw: the number of the event and of the landing.
    pub(super) followers: Vec<Vec<(u64, u64)>>,
}

impl History {
    /// Returns a sentence for each violation.
    pub(super) fn violations(&self) -> Vec<String> {
        let mut found = self.check_chain();
        found.extend(self.check_outcomes());
        found.extend(order::check(self));
        found.extend(keys::check(self));
        found.extend(leases::check(&self.operations));
        found.extend(self.check_followers());
        found
    }

    /// The entry with a sequence number, starting at 1.
    fn entry(&self, sequence: u64) -> Option<&Entry> {
        let index = usize::try_from(sequence).ok()?.checked_sub(1)?;
        self.log.get(index)
    }

    /// The log is a chain from the first head, and no request is in it twice.
    fn check_chain(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut head = &self.first;
        let mut requests = HashMap::new();
        for (number, entry) in (1..).zip(&self.log) {
            if entry.sequence != number {
                found.push(format!("entry {number} has number {}", entry.sequence));
            }
            if entry.parent != *head {
                found.push(format!("the parent of {number} is not the head before it"));
            }
            head = &entry.snapshot;
            if let Some(earlier) = requests.insert(&entry.request, number) {
                found.push(format!("{earlier} and {number} have the same request"));
            }
        }
        found
    }

    /// Each outcome agrees with the log.
    fn check_outcomes(&self) -> Vec<String> {
        let logged: HashMap<_, _> = (self.log.iter())
            .map(|entry| (&entry.snapshot, entry))
            .collect();
        let mut attempted: HashMap<&String, ()> = HashMap::new();
        let mut found = Vec::new();
        for operation in &self.operations {
            match &operation.action {
                Action::Land {
                    request,
                    snapshot,
                    outcome,
                } => {
                    attempted.insert(snapshot, ());
                    let entry = logged.get(snapshot).copied();
                    found.extend(self.check_landing(request, outcome, entry));
                }
                Action::Read { sequence, head } => {
                    let expected = match sequence {
                        0 => Some(&self.first),
                        _ => self.entry(*sequence).map(|entry| &entry.snapshot),
                    };
                    if expected != Some(head) {
                        found.push(format!("a read shows another head {sequence} than the log"));
                    }
                }
                _ => {}
            }
        }
        let strangers = self.log.iter().filter(|entry| {
            // Made by no attempt that a process recorded.
            !attempted.contains_key(&entry.snapshot)
        });
        found.extend(strangers.map(|entry| format!("nothing attempted {}", entry.sequence)));
        found
    }

    /// `entry` is the entry of this very attempt.
    fn check_landing(
        &self,
        request: &str,
        outcome: &Outcome,
        entry: Option<&Entry>,
    ) -> Option<String> {
        match outcome {
            Outcome::Landed(sequence) => {
                let is_logged = entry
                    .is_some_and(|entry| entry.sequence == *sequence && entry.request == request);
                (!is_logged).then(|| format!("the acknowledged landing {sequence} is lost"))
            }
            Outcome::Repeated { sequence, head } => {
                let is_logged = self
                    .entry(*sequence)
                    .is_some_and(|entry| entry.request == request && entry.snapshot == *head);
                (!is_logged).then(|| format!("the repeated landing {sequence} is not in the log"))
            }
            Outcome::Refused => entry.map(|entry| {
                let number = entry.sequence;
                format!("{number} is in the log, but its caller heard that nothing changed")
            }),
            Outcome::Unknown => None,
        }
    }

    /// Each follower saw one event for each landing, in order, with growing numbers.
    fn check_followers(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (number, seen) in self.followers.iter().enumerate() {
            if !seen.is_sorted_by(|one, next| one.0 < next.0) {
                found.push(format!("follower {number}: the numbers do not grow"));
            }
            let steps = seen.iter().map(|(_, step)| *step);
            if !steps.eq(1..=self.log.len() as u64) {
                found.push(format!(
                    "follower {number}: {} events do not show the {} landings in order",
                    seen.len(),
                    self.log.len()
                ));
            }
        }
        found
    }
}
