//! The order of landings and reads.

use std::collections::HashMap;

use super::{Action, History, Operation, Outcome};

/// Checks that every operation shows or makes a greater number than those that ended before it began,
/// and no number that was attempted only after it.
pub(super) fn check(history: &History) -> Vec<String> {
    let places: HashMap<_, _> = (history.log.iter())
        .map(|entry| (&entry.snapshot, entry.sequence))
        .collect();
    let mut attempts = HashMap::new();
    for operation in &history.operations {
        if let Action::Land { snapshot, .. } = &operation.action
            && let Some(place) = places.get(snapshot)
        {
            attempts.insert(*place, operation.began);
        }
    }
    let floors = Floors::of(&history.operations);
    let mut found = Vec::new();
    for operation in &history.operations {
        let floor = floors.at(operation.began);
        match &operation.action {
            // Also an attempt of unknown outcome that is in the log.
            Action::Land { snapshot, .. } => {
                if let Some(place) = places.get(snapshot)
                    && *place <= floor
                {
                    found.push(format!("{place} was attempted when {floor} was the head"));
                }
            }
            Action::Read { sequence, .. } if *sequence < floor => {
                found.push(format!("a read shows {sequence} after {floor}"));
            }
            _ => {}
        }
        let early = shown(operation).and_then(|shown| attempts.get(&shown).map(|at| (shown, *at)));
        if let Some((shown, attempted)) = early
            && attempted > operation.ended
        {
            found.push(format!("{shown} was shown before it was attempted"));
        }
    }
    found
}

/// The number that the log is known to have reached when an operation has ended.
fn shown(operation: &Operation) -> Option<u64> {
    match &operation.action {
        Action::Land { outcome, .. } => match outcome {
            Outcome::Landed(sequence) | Outcome::Repeated { sequence, .. } => Some(*sequence),
            Outcome::Refused | Outcome::Unknown => None,
        },
        Action::Read { sequence, .. } => Some(*sequence),
        _ => None,
    }
}

/// The greatest number that was known at each time.
struct Floors(Vec<(u64, u64)>);

impl Floors {
    fn of(operations: &[Operation]) -> Self {
        let ends = operations.iter();
        let ends = ends.filter_map(|one| shown(one).map(|shown| (one.ended, shown)));
        let mut ends: Vec<_> = ends.collect();
        ends.sort_unstable();
        let mut greatest = 0;
        for (_, shown) in &mut ends {
            greatest = greatest.max(*shown);
            *shown = greatest;
        }
        Self(ends)
    }

    /// The greatest number that an operation showed that ended before this time.
    fn at(&self, time: u64) -> u64 {
        let before = self.0.partition_point(|(ended, _)| *ended < time);
        before.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}
