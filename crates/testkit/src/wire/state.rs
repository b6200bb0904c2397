//! The counts and the faults of a proxy, which its connections share with the
//! test.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

use super::conversation::Event;
use super::faults::{Direction, Fault, Faults};
use super::trips::Trips;

/// Waiting for a lock that a test has poisoned would hide the first panic.
const POISONED: &str = "a connection of the proxy has panicked";

#[derive(Debug, Default)]
pub(super) struct State {
    shared: Mutex<Shared>,
    /// The faults that last.
    line: watch::Sender<Line>,
}

#[derive(Debug, Default)]
struct Shared {
    trips: Trips,
    plan: Faults,
    /// Number of connections since the plan was set.
    planned: u64,
    /// Faults that happen once, of which the numbers count down.
    pending: Vec<Fault>,
}

/// The faults of all connections that last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    pub(super) refuses: bool,
    pub(super) hangs: bool,
    pub(super) up: Duration,
    pub(super) down: Duration,
    /// Number of times that the faults were cleared.
    pub(super) heals: u64,
}

impl State {
    pub(super) fn trips(&self) -> Trips {
        self.shared().trips
    }

    pub(super) fn line(&self) -> watch::Receiver<Line> {
        self.line.subscribe()
    }

    pub(super) fn set(&self, fault: Fault) {
        match fault {
            Fault::Refuse => self.line.send_modify(|line| line.refuses = true),
            Fault::Hang => self.line.send_modify(|line| line.hangs = true),
            Fault::Delay { up, down } => self.line.send_modify(|line| {
                (line.up, line.down) = (up, down);
            }),
            once => self.shared().pending.push(once),
        }
    }

    pub(super) fn plan(&self, faults: Faults) {
        let mut shared = self.shared();
        shared.plan = faults;
        shared.planned = 0;
    }

    pub(super) fn heal(&self) {
        self.plan(Faults::default());
        self.shared().pending.clear();
        self.line.send_modify(|line| {
            *line = Line {
                heals: line.heals + 1,
                ..Line::default()
            };
        });
    }

    /// Returns the planned faults of a new connection.
    pub(super) fn accepted(&self) -> Vec<Fault> {
        let mut shared = self.shared();
        let number = shared.planned;
        shared.planned += 1;
        shared.plan.of_connection(number)
    }

    /// Counts a connection to the upstream.
    pub(super) fn connected(&self) {
        self.shared().trips.connections += 1;
    }

    pub(super) fn count(&self, event: Event) {
        let trips = &mut self.shared().trips;
        match event {
            Event::Startup => trips.startup_trips += 1,
            Event::Trip => trips.trips += 1,
            Event::Unreadable => trips.unreadable += 1,
            Event::Answer => {}
        }
    }

    /// Counts an answer for the faults that happen once. Returns whether it
    /// must not arrive.
    pub(super) fn answers(&self) -> bool {
        let mut cuts = false;
        self.shared().pending.retain_mut(|fault| {
            let Fault::CutAtTrip { nth } = fault else {
                return true;
            };
            *nth = nth.saturating_sub(1);
            cuts |= *nth == 0;
            *nth > 0
        });
        cuts
    }

    /// Applies the faults that happen once to the next bytes of a direction.
    /// Returns the number of bytes to forward, if the connection is then cut.
    pub(super) fn bytes(&self, towards: Direction, bytes: &mut [u8]) -> Option<usize> {
        let pending = &mut self.shared().pending;
        let mut cut = None;
        pending.retain(|fault| {
            let end = cut.unwrap_or(bytes.len());
            let reached = fault.cut(towards, 0, end);
            cut = reached.or(cut);
            reached.is_none()
        });
        let end = cut.unwrap_or(bytes.len());
        let bytes = &mut bytes[..end];
        pending.retain_mut(|fault| {
            let is_over = fault.flip(towards, 0, bytes);
            match fault {
                Fault::Cut {
                    direction,
                    after: left,
                }
                | Fault::Flip {
                    direction,
                    at: left,
                    ..
                } if *direction == towards => *left = left.saturating_sub(bytes.len() as u64),
                _ => {}
            }
            !is_over
        });
        cut
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect(POISONED)
    }
}

impl Fault {
    /// Returns how many of the next `length` bytes are forwarded before this
    /// fault cuts the connection, if it does. `start` bytes came before.
    pub(super) fn cut(&self, towards: Direction, start: u64, length: usize) -> Option<usize> {
        match self {
            Self::Cut { direction, after } if *direction == towards => {
                let left = after.saturating_sub(start);
                (left <= length as u64).then_some(left as usize)
            }
            _ => None,
        }
    }

    /// Inverts a bit of the next bytes, if it is this fault's. `start` bytes
    /// came before.
    pub(super) fn flip(&self, towards: Direction, start: u64, bytes: &mut [u8]) -> bool {
        let Self::Flip { direction, at, bit } = self else {
            return false;
        };
        let place = at.checked_sub(start).filter(|_| *direction == towards);
        match place.and_then(|place| bytes.get_mut(usize::try_from(place).ok()?)) {
            Some(byte) => {
                *byte ^= 1 << (bit % 8);
                true
            }
            None => false,
        }
    }
}
