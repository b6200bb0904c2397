//! Places for connections. A connection counts for its address until it has
//! sent a valid key, and for the key from then on. When all places are taken, a
//! new connection takes the place of a connection without a key, which is
//! evicted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use elevo_core::ErrorCode;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, Result};
use crate::platform::clock;

/// Maximum connections without a key per address; further connections wait.
const PER_ADDRESS: usize = 64;
/// Time for a new client to send a key. Connections without a key after this
/// time are evicted first, so that an honest client can open many connections
/// at once.
const TIME_TO_SHOW_A_KEY: Duration = Duration::from_secs(1);
/// Time for which connections that were closed without a request are counted.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Maximum addresses whose closed connections are counted.
const SUSPECTS: usize = 4096;
/// Maximum connections per key.
const PER_KEY: usize = 512;

/// The connections of a listener.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    count: usize,
    next: u64,
    /// Connections without a key, by number; the oldest has the smallest
    /// number.
    strangers: BTreeMap<u64, Stranger>,
    addresses: HashMap<IpAddr, Address>,
    keys: HashMap<String, usize>,
    suspects: Suspects,
}

/// Number of recent connections of each address that were closed without a
/// request.
#[derive(Debug, Default)]
struct Suspects {
    counts: HashMap<IpAddr, usize>,
    since: Option<Instant>,
}

impl Suspects {
    fn add(&mut self, address: IpAddr) {
        let now = clock::instant();
        let is_old = |since| now.duration_since(since) >= REMEMBERED;
        if self.since.is_none_or(is_old) || self.counts.len() >= SUSPECTS {
            self.counts.clear();
            self.since = Some(now);
        }
        *self.counts.entry(address).or_default() += 1;
    }

    fn count(&self, address: IpAddr) -> usize {
        self.counts.get(&address).copied().unwrap_or_default()
    }
}

#[derive(Debug)]
struct Stranger {
    address: IpAddr,
    since: Instant,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Address {
    /// The numbers of the address's connections without a key.
    strangers: BTreeSet<u64>,
    turns: Arc<Semaphore>,
}

/// The part of a place that the listener and the connection share.
#[derive(Debug, Default)]
struct Shared {
    /// Number of running requests.
    at_work: AtomicUsize,
    /// Whether the connection has sent a request.
    has_asked: AtomicBool,
    /// Whether the connection was upgraded from HTTP.
    is_upgraded: AtomicBool,
    evicted: CancellationToken,
}

/// The place of one connection.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    shared: Arc<Shared>,
    standing: Mutex<Standing>,
}

#[derive(Debug)]
enum Standing {
    Stranger {
        turns: Option<Arc<Semaphore>>,
        turn: Option<OwnedSemaphorePermit>,
    },
    Keyed(String),
    Left,
}

/// Counts a running request until it is dropped.
#[derive(Debug)]
pub(crate) struct Work(Arc<Shared>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Places {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            state: Mutex::default(),
        })
    }

    /// Takes a place for a connection from `address`. A connection without an
    /// address comes from a proxy, which many clients share. Returns `None` if
    /// all places are taken and no connection can be evicted.
    pub(crate) fn take(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Place> {
        let mut state = self.state();
        if state.count >= self.most && !state.evict() {
            return None;
        }
        state.count += 1;
        let number = state.next;
        state.next += 1;
        let shared = Arc::new(Shared::default());
        let turns = address.map(|address| {
            let address = network(address);
            let stranger = Stranger {
                address,
                since: clock::instant(),
                shared: shared.clone(),
            };
            state.strangers.insert(number, stranger);
            let found = state.addresses.entry(address).or_insert_with(|| Address {
                strangers: BTreeSet::new(),
                turns: Arc::new(Semaphore::new(PER_ADDRESS)),
            });
            found.strangers.insert(number);
            found.turns.clone()
        });
        drop(state);
        Some(Place {
            places: self.clone(),
            number,
            shared,
            standing: Mutex::new(Standing::Stranger { turns, turn: None }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Evicts a connection without a key and without a running request. Prefers
    /// the oldest connection that had time to send a key. Otherwise chooses the
    /// oldest connection of the address that closed the most connections
    /// without a request or, if equal, has the most connections without a key.
    fn evict(&mut self) -> bool {
        let Some(number) = self.slow().or_else(|| self.suspect()) else {
            return false;
        };
        if let Some(stranger) = self.forget_stranger(number) {
            // The place is free from here on; the connection closes soon.
            self.count -= 1;
            if !stranger.shared.has_asked.load(Ordering::Acquire) {
                self.suspects.add(stranger.address);
            }
            stranger.shared.evicted.cancel();
        }
        true
    }

    fn is_idle(&self, number: u64) -> bool {
        self.strangers.get(&number).is_some_and(|stranger| {
            stranger.shared.at_work.load(Ordering::Acquire) == 0
                && !stranger.shared.evicted.is_cancelled()
        })
    }

    /// Returns the oldest idle connection that had time to send a key.
    fn slow(&self) -> Option<u64> {
        let now = clock::instant();
        let numbers = self.strangers.iter();
        let mut slow = numbers
            .take_while(|(_, stranger)| now.duration_since(stranger.since) >= TIME_TO_SHOW_A_KEY);
        let found = slow.find(|(number, _)| self.is_idle(**number));
        found.map(|(number, _)| *number)
    }

    /// Returns the oldest idle connection of the address that closed the most
    /// connections without a request or, if equal, has the most connections
    /// without a key.
    fn suspect(&self) -> Option<u64> {
        let oldest = |(address, found): (&IpAddr, &Address)| {
            let mut strangers = found.strangers.iter();
            let number = *strangers.find(|number| self.is_idle(**number))?;
            let count = found.strangers.len();
            Some((self.suspects.count(*address), count, Reverse(number)))
        };
        let found = self.addresses.iter().filter_map(oldest).max()?;
        Some(found.2.0)
    }

    fn forget_stranger(&mut self, number: u64) -> Option<Stranger> {
        let stranger = self.strangers.remove(&number)?;
        if let Some(address) = self.addresses.get_mut(&stranger.address) {
            address.strangers.remove(&number);
            if address.strangers.is_empty() {
                self.addresses.remove(&stranger.address);
            }
        }
        Some(stranger)
    }

    fn forget_key(&mut self, key: &str) {
        if let Some(count) = self.keys.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.keys.remove(key);
            }
        }
    }
}

impl Place {
    /// Waits until the address has at most [`PER_ADDRESS`] connections without
    /// a key.
    pub(crate) async fn turn(&self) {
        let turns = match &*self.standing() {
            Standing::Stranger { turns, .. } => turns.clone(),
            _ => None,
        };
        let Some(turns) = turns else {
            return;
        };
        // The semaphore is never closed.
        if let Ok(permit) = turns.acquire_owned().await
            && let Standing::Stranger { turn, .. } = &mut *self.standing()
        {
            *turn = Some(permit);
        }
    }

    /// Counts the connection for a key. Fails if the key has [`PER_KEY`]
    /// connections.
    pub(crate) fn show(&self, key: &str) -> Result<()> {
        let mut standing = self.standing();
        if matches!(&*standing, Standing::Keyed(known) if known == key) {
            return Ok(());
        }
        let mut state = self.places.state();
        // The connection is about to be closed.
        if matches!(&*standing, Standing::Left) || self.shared.evicted.is_cancelled() {
            return Ok(());
        }
        let count = state.keys.entry(key.to_owned()).or_default();
        if *count >= PER_KEY {
            let message = format!("this key has reached its maximum of {PER_KEY} connections");
            return Err(Failure::new(ErrorCode::RateLimited, message).retry_after(1));
        }
        *count += 1;
        match &*standing {
            Standing::Keyed(before) => state.forget_key(before),
            _ => {
                state.forget_stranger(self.number);
            }
        }
        *standing = Standing::Keyed(key.to_owned());
        Ok(())
    }

    /// Returns whether the connection has sent a valid key, or comes from a
    /// trusted proxy.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(&*self.standing(), Standing::Stranger { turns: Some(_), .. })
    }

    /// Waits until the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.shared.evicted.cancelled().await;
    }

    /// Counts a new request as running.
    pub(crate) fn work(&self) -> Work {
        self.shared.has_asked.store(true, Ordering::Release);
        self.shared.at_work.fetch_add(1, Ordering::AcqRel);
        Work(self.shared.clone())
    }

    /// Returns whether a request is running, or the connection was upgraded.
    pub(crate) fn is_at_work(&self) -> bool {
        self.shared.at_work.load(Ordering::Acquire) > 0
            || self.shared.is_upgraded.load(Ordering::Acquire)
    }

    /// Marks the connection as upgraded from HTTP.
    pub(crate) fn upgrade(&self) {
        self.shared.is_upgraded.store(true, Ordering::Release);
    }

    /// Releases the place, because the connection is closed.
    pub(crate) fn leave(&self) {
        let standing = std::mem::replace(&mut *self.standing(), Standing::Left);
        let mut state = self.places.state();
        match standing {
            Standing::Left => return,
            Standing::Keyed(key) => state.forget_key(&key),
            // The connection was evicted, so its place already belongs to
            // another connection.
            Standing::Stranger { .. } if self.shared.evicted.is_cancelled() => return,
            Standing::Stranger { .. } => {
                let stranger = state.forget_stranger(self.number);
                let is_silent = !self.shared.has_asked.load(Ordering::Acquire);
                if let Some(stranger) = stranger.filter(|_| is_silent) {
                    state.suspects.add(stranger.address);
                }
            }
        }
        state.count -= 1;
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Returns the address that a connection counts for: the /64 network of an IPv6
/// address, because one client can use all addresses of its network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([127, 0, 0, last]))
    }

    fn is_evicted(place: &Place) -> bool {
        place.shared.evicted.is_cancelled()
    }

    fn is_empty(places: &Places) -> bool {
        let state = places.state();
        state.count == 0
            && state.strangers.is_empty()
            && state.addresses.is_empty()
            && state.keys.is_empty()
    }

    #[test]
    fn evicts_the_oldest_connection_of_the_address_with_the_most() {
        let places = Places::new(4);
        let honest = places.take(address(1)).unwrap();
        let crowd: Vec<_> = (0..3).map(|_| places.take(address(2)).unwrap()).collect();
        let new = places.take(address(3)).unwrap();
        assert!(!is_evicted(&honest) && !is_evicted(&new));
        assert_eq!(
            crowd.iter().map(is_evicted).collect::<Vec<_>>(),
            [true, false, false]
        );
        drop((honest, crowd, new));
        assert!(is_empty(&places));
    }

    #[test]
    fn many_new_connections_of_one_address_evict_silent_connections() {
        let places = Places::new(8);
        let silent: Vec<_> = (2..6).map(|n| places.take(address(n)).unwrap()).collect();
        for stranger in places.state().strangers.values_mut() {
            stranger.since -= TIME_TO_SHOW_A_KEY;
        }
        let honest: Vec<_> = (0..8).map(|_| places.take(address(1)).unwrap()).collect();
        assert!(silent.iter().all(is_evicted));
        assert!(!honest.iter().any(is_evicted));
    }

    #[test]
    fn evicts_first_from_addresses_that_closed_silent_connections() {
        let places = Places::new(8);
        for _ in 0..3 {
            drop(places.take(address(2)).unwrap());
        }
        let silent: Vec<_> = (0..2).map(|_| places.take(address(2)).unwrap()).collect();
        let honest: Vec<_> = (0..6).map(|_| places.take(address(1)).unwrap()).collect();
        let more: Vec<_> = (0..2).map(|_| places.take(address(1)).unwrap()).collect();
        assert!(silent.iter().all(is_evicted));
        assert!(!honest.iter().chain(&more).any(is_evicted));
    }

    #[test]
    fn never_evicts_a_connection_with_a_request_or_a_key() {
        let places = Places::new(2);
        let keyed = places.take(address(1)).unwrap();
        keyed.show("one").unwrap();
        let busy = places.take(address(1)).unwrap();
        let work = busy.work();
        assert!(places.take(address(2)).is_none());
        drop(work);
        assert!(places.take(address(2)).is_some());
        assert!(is_evicted(&busy) && !is_evicted(&keyed));
        drop((keyed, busy));
        assert!(is_empty(&places));
    }

    #[test]
    fn a_key_has_a_bounded_number_of_connections() {
        let places = Places::new(PER_KEY * 2);
        let all: Vec<_> = (0..PER_KEY)
            .map(|_| {
                let place = places.take(address(1)).unwrap();
                place.show("one").unwrap();
                place.show("one").unwrap();
                place
            })
            .collect();
        let more = places.take(address(1)).unwrap();
        more.show("one").unwrap_err();
        more.show("two").unwrap();
        all[0].show("two").unwrap();
        more.show("one").unwrap();
        drop((all, more));
        assert!(is_empty(&places));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_key_wait_for_earlier_ones_of_their_address() {
        let places = Places::new(1000);
        let mut taken = Vec::new();
        for _ in 0..PER_ADDRESS {
            let place = places.take(address(1)).unwrap();
            place.turn().await;
            taken.push(place);
        }
        let next = places.take(address(1)).unwrap();
        let soon = Duration::from_secs(1);
        assert!(tokio::time::timeout(soon, next.turn()).await.is_err());
        // Other addresses and proxies do not wait.
        places.take(address(2)).unwrap().turn().await;
        places.take(None).unwrap().turn().await;
        taken[7].show("one").unwrap();
        next.turn().await;
        drop((taken, next));
        assert!(is_empty(&places));
    }

    #[test]
    fn ipv6_addresses_count_by_their_network() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
