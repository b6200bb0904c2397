//! Counts of round trips, and assertions on them.

use std::ops::Sub;
use std::panic::Location;

use super::Wire;

/// The counts of a proxy. The difference of two is what happened in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trips {
    /// Round trips on established connections.
    pub trips: u64,
    /// Connections to the upstream.
    pub connections: u64,
    /// Round trips of start-up, authentication and requests for encryption.
    pub startup_trips: u64,
    /// Connections with bytes that the proxy cannot read, because they are
    /// encrypted or of another protocol.
    pub unreadable: u64,
}

impl Sub for Trips {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            trips: self.trips - before.trips,
            connections: self.connections - before.connections,
            startup_trips: self.startup_trips - before.startup_trips,
            unreadable: self.unreadable - before.unreadable,
        }
    }
}

/// Asserts that `work` needs exactly this number of round trips on established
/// connections, and returns its result.
///
/// # Panics
///
/// Panics if the number differs, if a connection started up meanwhile, or if
/// the proxy could not read all of them since it was started.
#[track_caller]
pub fn expect_trips<F: Future>(
    wire: &Wire,
    expected: u64,
    work: F,
) -> impl Future<Output = F::Output> {
    expect([(wire, expected)], work, Location::caller())
}

/// Does the same as [`expect_trips`] for the database and the object store at
/// once.
#[track_caller]
pub fn expect_trips_of_both<'a, F: Future>(
    pg: (&'a Wire, u64),
    s3: (&'a Wire, u64),
    work: F,
) -> impl Future<Output = F::Output> {
    expect([pg, s3], work, Location::caller())
}

async fn expect<F: Future, const N: usize>(
    wires: [(&Wire, u64); N],
    work: F,
    caller: &Location<'_>,
) -> F::Output {
    let before = wires.map(|(wire, _)| wire.trips());
    let output = work.await;
    let mut wrong = Vec::new();
    for ((wire, expected), before) in wires.into_iter().zip(before) {
        let after = wire.trips();
        wrong.extend(difference(wire.name(), expected, before, after));
    }
    assert!(wrong.is_empty(), "{caller}: {}", wrong.join("; "));
    output
}

/// Describes how the round trips differ from the expected number.
fn difference(name: &str, expected: u64, before: Trips, after: Trips) -> Option<String> {
    if after.unreadable > 0 {
        return Some(format!(
            "round trips to {name} cannot be counted: {} connections are encrypted or of another protocol",
            after.unreadable
        ));
    }
    let found = after - before;
    if found.trips == expected && found.startup_trips == 0 {
        return None;
    }
    let mut text = format!(
        "expected {expected} round trips to {name}, counted {}",
        found.trips
    );
    if found.startup_trips > 0 {
        text += &format!(
            " and {} of start-up ({} new connections): warm the connections first",
            found.startup_trips, found.connections
        );
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(after: Trips) -> Option<String> {
        let before = Trips {
            trips: 5,
            connections: 1,
            startup_trips: 2,
            unreadable: 0,
        };
        difference("PostgreSQL", 1, before, after)
    }

    #[test]
    fn a_message_names_expected_and_counted_round_trips() {
        let after = Trips {
            trips: 6,
            connections: 1,
            startup_trips: 2,
            unreadable: 0,
        };
        assert_eq!(described(after), None);
        assert_eq!(
            described(Trips { trips: 8, ..after }).unwrap(),
            "expected 1 round trips to PostgreSQL, counted 3"
        );
    }

    #[test]
    fn a_new_connection_is_an_error() {
        let after = Trips {
            trips: 6,
            connections: 2,
            startup_trips: 5,
            unreadable: 0,
        };
        assert_eq!(
            described(after).unwrap(),
            "expected 1 round trips to PostgreSQL, counted 1 and 3 of start-up \
             (1 new connections): warm the connections first"
        );
    }

    #[test]
    fn encrypted_connections_cannot_be_counted() {
        let after = Trips {
            trips: 6,
            connections: 2,
            startup_trips: 2,
            unreadable: 1,
        };
        let text = described(after).unwrap();
        assert!(text.contains("1 connections are encrypted"), "{text}");
    }
}
