//! Reading ranges of S3 files through the cache.
//!
//! ```text
//! ranges ─► blocks of 256 KiB ─► in the cache ─────────────────► objects
//!                            └─► being fetched by another call ─┘
//!                            └─► runs: at most 1 MiB apart, at most 8 MiB
//!                                each run is one request, eight at a time
//! ```
//!
//! Where the blocks before are cached, a file is probably read in order: then up to
//! eight times as many blocks are fetched as are cached without a gap, and after a
//! while the next run before any call asks for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use elevo_engine::{StoreError, StoreResult};
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::bucket::{Bucket, FileKey};
use crate::cache::{BLOCK_BYTES, BlockCache, BlockKey};
use crate::failure::valid;

/// Blocks between two wanted ones that are fetched with them.
const MAX_GAP: u32 = 4;
/// Blocks of one request.
const MAX_RUN: u32 = 32;
/// Requests at a time.
const REQUESTS: usize = 8;
/// Blocks that are fetched for each cached one before them.
const GROWTH: u32 = 8;
/// Cached blocks after which a file counts as read in order.
const IN_ORDER: u32 = MAX_RUN / GROWTH;
/// Blocks that are fetched ahead of a call, at least.
const AHEAD: u32 = MAX_RUN / 2;

/// A file in S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredFile {
    pub(crate) tenant: i32,
    pub(crate) key: FileKey,
    pub(crate) size: u64,
}

impl StoredFile {
    /// Reads the key and the size of a row.
    pub(crate) fn of_row(tenant: i32, key: &[u8], size: i64) -> StoreResult<Self> {
        Ok(Self {
            tenant,
            key: valid(FileKey::read(key), "the key of a file")?,
            size: size as u64,
        })
    }

    fn block(&self, number: u32) -> BlockKey {
        BlockKey {
            file: self.key,
            number,
        }
    }

    fn blocks(&self) -> u32 {
        self.size.div_ceil(BLOCK_BYTES) as u32
    }

    /// The bytes of a run of blocks.
    fn bytes(&self, run: &Range<u32>) -> Range<u64> {
        let end = u64::from(run.end) * BLOCK_BYTES;
        u64::from(run.start) * BLOCK_BYTES..end.min(self.size)
    }
}

/// The blocks of a range.
fn blocks_of(range: &Range<u64>) -> Range<u32> {
    let first = (range.start / BLOCK_BYTES) as u32;
    first..range.end.div_ceil(BLOCK_BYTES) as u32
}

/// The result of a request for a block.
#[derive(Clone, Debug)]
enum Fetched {
    Block(Bytes),
    /// The file does not exist, or is shorter.
    Gone,
    Failed(Arc<StoreError>),
}

type Flights = HashMap<BlockKey, Flight>;
type Flight = watch::Receiver<Option<Fetched>>;
type Landing = watch::Sender<Option<Fetched>>;

/// The blocks of all files.
#[derive(Debug)]
pub(crate) struct Blocks {
    bucket: Bucket,
    cache: Box<dyn BlockCache>,
    /// Blocks that are being fetched.
    flights: Mutex<Flights>,
    requests: Semaphore,
}

impl Blocks {
    pub(crate) fn new(bucket: Bucket, cache: Box<dyn BlockCache>) -> Arc<Self> {
        Arc::new(Self {
            bucket,
            cache,
            flights: Mutex::default(),
            requests: Semaphore::new(REQUESTS),
        })
    }

    /// Returns ranges of a file, unverified; `None` if the file does not exist or
    /// is shorter. `is_fresh` leaves out the cache.
    pub(crate) async fn read(
        self: &Arc<Self>,
        file: StoredFile,
        ranges: &[Range<u64>],
        is_fresh: bool,
    ) -> StoreResult<Option<Vec<Bytes>>> {
        if ranges.iter().any(|range| range.end > file.size) {
            return Ok(None);
        }
        let wanted: BTreeSet<_> = ranges.iter().flat_map(blocks_of).collect();
        let cached = wanted.iter().map(|number| async {
            let block = match is_fresh {
                true => None,
                false => self.cache.get(&file.block(*number)).await,
            };
            (*number, block)
        });
        let mut blocks = BTreeMap::new();
        let mut missing = BTreeSet::new();
        for (number, block) in join_all(cached).await {
            let length = file.bytes(&(number..number + 1));
            let length = (length.end - length.start) as usize;
            match block.filter(|block| block.len() == length) {
                Some(block) => {
                    blocks.insert(number, block);
                }
                None => {
                    missing.insert(number);
                }
            }
        }
        let flights = self.fetch(file, &missing);
        if let (Some(first), Some(last)) = (wanted.first(), wanted.last()) {
            self.fetch_ahead(file, *first, *last);
        }
        for (number, mut flight) in flights {
            let landed = flight.wait_for(Option::is_some).await;
            let landed = landed.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
            match landed.clone() {
                Some(Fetched::Block(block)) => blocks.insert(number, block),
                Some(Fetched::Failed(error)) => {
                    return Err(StoreError::Unavailable(Box::new(error)));
                }
                Some(Fetched::Gone) | None => return Ok(None),
            };
        }
        Ok(ranges.iter().map(|range| cut(&blocks, range)).collect())
    }

    /// Removes the blocks of a range, whose bytes were wrong.
    pub(crate) fn forget(&self, file: FileKey, range: &Range<u64>) {
        for number in blocks_of(range) {
            self.cache.remove(&BlockKey { file, number });
        }
    }

    pub(crate) async fn close(&self) {
        self.cache.close().await;
    }

    /// Blocks before one that are cached or being fetched, without a gap, at most
    /// [`IN_ORDER`].
    fn known_before(&self, flights: &Flights, file: &StoredFile, number: u32) -> u32 {
        let before = (0..number).rev().take(IN_ORDER as usize);
        let known = before.take_while(|number| self.is_known(flights, file, *number));
        known.count() as u32
    }

    fn is_known(&self, flights: &Flights, file: &StoredFile, number: u32) -> bool {
        let key = file.block(number);
        flights.contains_key(&key) || self.cache.has(&key)
    }

    /// Begins the next request of a file that is read in order.
    fn fetch_ahead(self: &Arc<Self>, file: StoredFile, first: u32, last: u32) {
        let next = {
            let flights = self.flights.lock();
            if self.known_before(&flights, &file, first) < IN_ORDER {
                return;
            }
            let mut ahead = last + 1..file.blocks().min(last + 1 + AHEAD);
            ahead.find(|number| !self.is_known(&flights, &file, *number))
        };
        if let Some(next) = next {
            self.fetch(file, &BTreeSet::from([next]));
        }
    }

    /// Begins requests for blocks that are not being fetched already.
    fn fetch(self: &Arc<Self>, file: StoredFile, missing: &BTreeSet<u32>) -> Vec<(u32, Flight)> {
        if missing.is_empty() {
            return Vec::new();
        }
        let mut flights = self.flights.lock();
        let mut waiting = Vec::with_capacity(missing.len());
        let mut new = Vec::new();
        for number in missing {
            match flights.get(&file.block(*number)) {
                Some(flight) => waiting.push((*number, flight.clone())),
                None => new.push(*number),
            }
        }
        for run in self.runs(&flights, &file, &new) {
            let mut landings = Vec::new();
            for number in run.clone() {
                let key = file.block(number);
                let is_wanted = new.binary_search(&number).is_ok();
                if flights.contains_key(&key) || (!is_wanted && self.cache.has(&key)) {
                    continue;
                }
                let (landing, flight) = watch::channel(None);
                flights.insert(key, flight.clone());
                landings.push((number, landing));
                if is_wanted {
                    waiting.push((number, flight));
                }
            }
            tokio::spawn(self.clone().request(file, run, landings));
        }
        waiting
    }

    /// Joins blocks to runs, and extends the last one if those before it are
    /// cached.
    fn runs(&self, flights: &Flights, file: &StoredFile, numbers: &[u32]) -> Vec<Range<u32>> {
        let mut runs: Vec<Range<u32>> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some(run) if number - run.end <= MAX_GAP && number + 1 - run.start <= MAX_RUN => {
                    run.end = number + 1;
                }
                _ => runs.push(*number..number + 1),
            }
        }
        if let Some(run) = runs.last_mut() {
            let end = run.start + self.known_before(flights, file, run.start) * GROWTH;
            run.end = run.end.max(end).min(file.blocks());
        }
        runs
    }

    /// Fetches a run, for all calls that wait for its blocks.
    async fn request(
        self: Arc<Self>,
        file: StoredFile,
        run: Range<u32>,
        landings: Vec<(u32, Landing)>,
    ) {
        let bytes = file.bytes(&run);
        let fetched = match self.requests.acquire().await {
            Ok(_permit) => {
                let found = self
                    .bucket
                    .range(file.tenant, file.key, bytes.clone())
                    .await;
                found.map_err(Arc::new)
            }
            Err(error) => Err(Arc::new(StoreError::Unavailable(Box::new(error)))),
        };
        for (number, landing) in landings {
            let key = file.block(number);
            let landed = match &fetched {
                Ok(Some(found)) => {
                    let block = file.bytes(&(number..number + 1));
                    let at = |place: u64| (place - bytes.start) as usize;
                    let block = found.slice(at(block.start)..at(block.end));
                    if !self.cache.has(&key) {
                        // A block that kept the whole request in memory would
                        // count for much less than it takes.
                        self.cache.put(key, Bytes::copy_from_slice(&block));
                    }
                    Fetched::Block(block)
                }
                Ok(None) => Fetched::Gone,
                Err(error) => Fetched::Failed(error.clone()),
            };
            self.flights.lock().remove(&key);
            landing.send_replace(Some(landed));
        }
    }
}

/// Cuts a range out of blocks.
fn cut(blocks: &BTreeMap<u32, Bytes>, range: &Range<u64>) -> Option<Bytes> {
    let mut parts = blocks_of(range).map(|number| {
        let block = blocks.get(&number)?;
        let start = u64::from(number) * BLOCK_BYTES;
        let from = range.start.saturating_sub(start) as usize;
        let to = block.len().min((range.end - start) as usize);
        (from <= to).then(|| block.slice(from..to))
    });
    let first = parts.next()??;
    if first.len() as u64 == range.end - range.start {
        return Some(first);
    }
    let mut whole = BytesMut::from(&first[..]);
    for part in parts {
        whole.extend_from_slice(&part?);
    }
    (whole.len() as u64 == range.end - range.start).then(|| whole.freeze())
}
