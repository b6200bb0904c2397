//! Faults of a connection, and plans of them.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// A fault of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is accepted and reset at once.
    Refuse,
    /// Nothing is read or forwarded, until [`Wire::heal`](super::Wire::heal).
    Hang,
    /// Each byte arrives later by this time. The rate is not limited, except by
    /// 4 MiB on their way in each direction.
    Delay {
        /// From the client to the server.
        up: Duration,
        /// From the server to the client.
        down: Duration,
    },
    /// The connection is closed after this number of bytes in a direction.
    Cut {
        /// The direction whose bytes are counted.
        direction: Direction,
        /// Number of bytes that are forwarded.
        after: u64,
    },
    /// The connection is closed before the end of the nth round trip reaches
    /// the client: the server has done its work, but the client does not hear
    /// of it. Round trips of start-up do not count.
    CutAtTrip {
        /// Number of the round trip, starting at 1.
        nth: u64,
    },
    /// A bit is inverted.
    Flip {
        /// The direction whose bytes are counted.
        direction: Direction,
        /// Number of bytes before the one that is changed.
        at: u64,
        /// Number of the bit, from 0 to 7.
        bit: u8,
    },
}

impl Fault {
    /// Returns a delay of each round trip: half of it in each direction.
    pub fn delay(trip: Duration) -> Self {
        let up = trip / 2;
        Self::Delay {
            up,
            down: trip - up,
        }
    }
}

/// The kinds of faults that a plan is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Fault::Refuse`].
    Refuse,
    /// [`Fault::Hang`]. The client needs a time limit.
    Hang,
    /// [`Fault::Delay`], up to 20 ms in each direction.
    Delay,
    /// [`Fault::Cut`], after up to 64 KiB.
    Cut,
    /// [`Fault::CutAtTrip`], up to the 16th.
    CutAtTrip,
    /// [`Fault::Flip`], in the first 64 KiB. PostgreSQL does not notice a
    /// changed value: suited to clients that check their data.
    Flip,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Refuse,
        Self::Hang,
        Self::Delay,
        Self::Cut,
        Self::CutAtTrip,
        Self::Flip,
    ];
}

/// The faults of each connection of a proxy. Bytes and round trips count from
/// the beginning of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Plan);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Plan {
    #[default]
    Nothing,
    Script(Vec<Vec<Fault>>),
    Seed(u64, Vec<Kind>),
}

/// Of this many successive connections, at least one has no fault: a client
/// that retries makes progress.
const PROGRESS: u64 = 4;

impl Faults {
    /// Creates a plan from the faults of the first connection, of the second
    /// one, and so on. The connections after the last one have no faults.
    pub fn script(connections: impl IntoIterator<Item = Vec<Fault>>) -> Self {
        Self(Plan::Script(connections.into_iter().collect()))
    }

    /// Creates a plan of all kinds of faults. One seed is one plan. About half
    /// of the connections have a fault, and at least one of four successive
    /// ones has none.
    pub fn from_seed(seed: u64) -> Self {
        Self::from_seed_of(seed, &Kind::ALL)
    }

    /// Creates a plan of these kinds of faults.
    pub fn from_seed_of(seed: u64, kinds: &[Kind]) -> Self {
        assert!(!kinds.is_empty(), "a plan needs a kind of fault");
        Self(Plan::Seed(seed, kinds.to_vec()))
    }

    /// Returns the faults of a connection, counted from 0.
    pub fn of_connection(&self, number: u64) -> Vec<Fault> {
        match &self.0 {
            Plan::Nothing => Vec::new(),
            Plan::Script(connections) => {
                let number = usize::try_from(number).unwrap_or(usize::MAX);
                connections.get(number).cloned().unwrap_or_default()
            }
            Plan::Seed(seed, kinds) => random_faults(*seed, kinds, number),
        }
    }
}

fn random_faults(seed: u64, kinds: &[Kind], number: u64) -> Vec<Fault> {
    // Each connection has a generator, so that its faults do not depend on
    // those that were read before.
    let mut random = SmallRng::seed_from_u64(seed);
    let mut random = SmallRng::seed_from_u64(random.random::<u64>() ^ number);
    if number % PROGRESS == PROGRESS - 1 || random.random_bool(1.0 / 3.0) {
        return Vec::new();
    }
    let kind = kinds[random.random_range(0..kinds.len())];
    vec![random_fault(kind, &mut random)]
}

fn random_fault(kind: Kind, random: &mut SmallRng) -> Fault {
    match kind {
        Kind::Refuse => Fault::Refuse,
        Kind::Hang => Fault::Hang,
        Kind::Delay => Fault::Delay {
            up: Duration::from_micros(random.random_range(0..20_000)),
            down: Duration::from_micros(random.random_range(0..20_000)),
        },
        Kind::Cut => Fault::Cut {
            direction: random_direction(random),
            after: random_place(random),
        },
        Kind::CutAtTrip => Fault::CutAtTrip {
            nth: random.random_range(1..=16),
        },
        Kind::Flip => Fault::Flip {
            direction: random_direction(random),
            at: random_place(random),
            bit: random.random_range(0..8),
        },
    }
}

fn random_direction(random: &mut SmallRng) -> Direction {
    match random.random() {
        true => Direction::Up,
        false => Direction::Down,
    }
}

/// Returns a number below 64 Ki, small ones more often: most connections carry
/// little.
fn random_place(random: &mut SmallRng) -> u64 {
    let limit = 1 << random.random_range(0..=16);
    random.random_range(0..limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_many(faults: &Faults) -> Vec<Vec<Fault>> {
        (0..1000).map(|n| faults.of_connection(n)).collect()
    }

    #[test]
    fn one_seed_is_one_plan() {
        let plan = of_many(&Faults::from_seed(7));
        assert_eq!(plan, of_many(&Faults::from_seed(7)));
        assert_ne!(plan, of_many(&Faults::from_seed(8)));
        // The order in which connections are asked for does not matter.
        assert_eq!(plan[900], Faults::from_seed(7).of_connection(900));
    }

    #[test]
    fn a_seed_gives_all_kinds_of_faults_and_lets_a_client_make_progress() {
        let plan = of_many(&Faults::from_seed(1));
        let found: Vec<_> = plan.iter().flatten().map(std::mem::discriminant).collect();
        for kind in Kind::ALL {
            let fault = random_fault(kind, &mut SmallRng::seed_from_u64(0));
            assert!(found.contains(&std::mem::discriminant(&fault)), "{kind:?}");
        }
        for four in plan.chunks(4) {
            assert!(four.iter().any(Vec::is_empty));
        }
    }

    #[test]
    fn a_seed_of_some_kinds_gives_only_these() {
        let plan = of_many(&Faults::from_seed_of(1, &[Kind::Refuse]));
        assert!(plan.iter().flatten().all(|fault| *fault == Fault::Refuse));
    }

    #[test]
    fn a_script_ends() {
        let script = Faults::script([vec![], vec![Fault::Hang]]);
        let found: Vec<_> = (0..3).map(|n| script.of_connection(n)).collect();
        assert_eq!(found, [vec![], vec![Fault::Hang], vec![]]);
    }

    #[test]
    fn the_halves_of_a_delay_add_up() {
        let trip = Duration::from_nanos(1_000_001);
        let Fault::Delay { up, down } = Fault::delay(trip) else {
            panic!("not a delay");
        };
        assert_eq!(up + down, trip);
    }
}
