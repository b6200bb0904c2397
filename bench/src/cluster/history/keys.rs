//! Idempotency keys: one process at a time runs a request, and its result stays.

use std::collections::{BTreeMap, HashMap};

use super::{Action, History, KeyState, Operation};

/// The operations on one key.
#[derive(Default)]
struct OfKey<'a> {
    begins: Vec<(&'a Operation, &'a str, &'a KeyState)>,
    finishes: Vec<(&'a Operation, &'a str, u64, bool)>,
}

pub(super) fn check(history: &History) -> Vec<String> {
    let mut keys: BTreeMap<&str, OfKey<'_>> = BTreeMap::new();
    for operation in &history.operations {
        match &operation.action {
            Action::Begin {
                key,
                process,
                begun,
            } => {
                let of_key = keys.entry(key).or_default();
                of_key.begins.push((operation, process, begun));
            }
            Action::Finish {
                key,
                process,
                sequence,
                is_acknowledged,
            } => {
                let finish = (operation, process.as_str(), *sequence, *is_acknowledged);
                keys.entry(key).or_default().finishes.push(finish);
            }
            _ => {}
        }
    }
    let landed: HashMap<_, _> = (history.log.iter())
        .map(|entry| (entry.request.as_str(), entry.sequence))
        .collect();
    let mut found = Vec::new();
    for (key, of_key) in &keys {
        found.extend(of_key.check_runs(key));
        found.extend(of_key.check_results(key, landed.get(key).copied()));
    }
    found
}

impl OfKey<'_> {
    /// No process takes a key while another one surely runs it: from the end of its `begin` to the
    /// beginning of its first `finish`.
    fn check_runs(&self, key: &str) -> Vec<String> {
        let takes: Vec<_> = (self.begins.iter())
            .filter(|(_, _, begun)| **begun == KeyState::Taken)
            .collect();
        let mut found = Vec::new();
        for (take, process, _) in &takes {
            let finishes = self.finishes.iter();
            let finishes = finishes
                .filter(|(finish, by, ..)| by == process && finish.began >= take.ended)
                .map(|(finish, ..)| finish.began);
            let until = finishes.min().unwrap_or(u64::MAX);
            let meanwhile = takes.iter().find(|(other, by, _)| {
                by != process && other.began > take.ended && other.ended < until
            });
            if let Some((_, other, _)) = meanwhile {
                found.push(format!("{key}: {other} took it while {process} ran it"));
            }
        }
        found
    }

    /// The results agree with each other and with the log, and a finished request stays finished.
    fn check_results(&self, key: &str, landed: Option<u64>) -> Vec<String> {
        let mut found = Vec::new();
        for (_, process, sequence, _) in &self.finishes {
            if landed != Some(*sequence) {
                found.push(format!(
                    "{key}: {process} finished with {sequence}, not {landed:?}"
                ));
            }
        }
        let acknowledged = self.finishes.iter().filter(|(.., is_known)| *is_known);
        let finished = acknowledged.map(|(finish, ..)| finish.ended).min();
        for (begin, process, begun) in &self.begins {
            match begun {
                KeyState::Done(sequence) => {
                    let attempted = self.finishes.iter();
                    let attempted = attempted.clone().any(|(finish, _, finished, _)| {
                        finished == sequence && finish.began < begin.ended
                    });
                    if !attempted {
                        found.push(format!("{key}: nothing finished it with {sequence}"));
                    }
                }
                KeyState::Taken | KeyState::Running => {
                    if finished.is_some_and(|finished| finished < begin.began) {
                        found.push(format!("{key}: {process} found it unfinished again"));
                    }
                }
            }
        }
        found
    }
}
