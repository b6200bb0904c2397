//! Reads of a process that knows nothing yet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use elevo_core::TreePath;
use elevo_engine::{StateTree, Store};
use elevo_objects::SnapshotId;
use elevo_testkit::wire::Wire;
use futures::future::try_join_all;

use super::Place;
use super::peer::Uploads;
use crate::cluster::Bench;
use crate::data::{Dataset, FileSizes, Layout, noise, write_to_disk};
use crate::engine::fixture::{import_all, repository, tree_path};
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const FILES: usize = 10_000;
const FILE_BYTES: usize = 20 << 10;
/// Readers at once, each of a part of the files, and downloads at once of the peer.
const READERS: usize = 8;
/// Added to each request.
const DELAY: Duration = Duration::from_millis(20);
/// Bytes of a download of the peer.
const DOWNLOAD_BYTES: usize = 8 << 20;
const ROUNDS: usize = 3;
/// Added to each round trip when they are counted by the time that they take,
/// since requests at the same moment are one.
const TRIP: Duration = Duration::from_millis(500);
/// Files of the large tree.
const MANY: usize = 1_000_000;

/// Files of one size, in directories of a hundred.
struct Files(usize);

impl Dataset for Files {
    fn files(&self) -> usize {
        self.0
    }

    fn path(&self, index: usize) -> String {
        format!("d{:03}/f{:02}", index / 100, index % 100)
    }

    fn content(&self, index: usize) -> Vec<u8> {
        noise(FILE_BYTES, "read", index as u64)
    }
}

pub(in crate::cluster) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let files = Files(bench.count(FILES));
    let directory = bench.scratch.join("files");
    write_to_disk(&files, &directory)?;
    let _inside = bench.runtime.enter();
    let place = Place::new()?;
    let store: Arc<dyn Store> = Arc::new(bench.runtime.block_on(place.open(|_| {}))?);
    let snapshot = import_all(&repository(&store), &directory, 2)?;
    bench.runtime.block_on(measure(&place, &files, snapshot))
}

async fn measure(place: &Place, files: &Files, snapshot: SnapshotId) -> Result<Vec<Row>> {
    let bytes = files.files() * FILE_BYTES;
    let wire = Wire::http(place.s3.address());
    wire.delay(DELAY);
    let mut times = [Samples::new(), Samples::new()];
    let (mut first, mut second) = (Samples::new(), Samples::new());
    let uploads = Uploads::open(place)?;
    let plain: Vec<_> = (0..bytes.div_ceil(DOWNLOAD_BYTES))
        .map(|n| noise(DOWNLOAD_BYTES, "plain", n as u64).into())
        .collect();
    uploads.put("plain", plain).await?;
    let downloads = Uploads::at(place, &format!("http://{}", wire.address()))?;
    for round in 0..ROUNDS {
        for turn in 0..2 {
            if (round + turn) % 2 == 1 {
                let count = bytes.div_ceil(DOWNLOAD_BYTES);
                times[1].push(downloads.get("plain", count, READERS).await?);
                continue;
            }
            let endpoint = format!("http://{}", wire.address());
            let change = |options: &mut elevo_store_cluster::Options| {
                options.bucket.endpoint = Some(endpoint);
            };
            let store: Arc<dyn Store> = Arc::new(place.open(change).await?);
            let before = wire.trips().trips;
            times[0].push(read_all(&store, files, snapshot).await?);
            let between = wire.trips().trips;
            read_all(&store, files, snapshot).await?;
            first.push((between - before) as f64);
            second.push((wire.trips().trips - between) as f64);
        }
    }
    let [ours, peer] = times;
    let mib = bytes >> 20;
    let count = |name: String, ours: &Samples, limit: f64| Row {
        name,
        unit: Unit::Count,
        ours: ours.figure(),
        peer: None,
        bar: Some(Bar::AtMost(limit)),
    };
    Ok(vec![
        Row {
            name: format!("first read of {} files of {mib} MiB", files.files()),
            unit: Unit::Milliseconds,
            ours: ours.figure(),
            peer: Some(("plain download", peer.figure())),
            // 80 % of the rate.
            bar: Some(Bar::AtMostTimes(1.25)),
        },
        count(
            format!("requests of the first read of {mib} MiB"),
            &first,
            mib as f64 / 2.0,
        ),
        count("requests of the second read".into(), &second, 0.0),
    ])
}

/// Reads all files with an empty cache of nodes; returns the time.
async fn read_all(store: &Arc<dyn Store>, files: &Files, snapshot: SnapshotId) -> Result<f64> {
    let began = Instant::now();
    let tree = StateTree::open(&repository(store), snapshot).await?;
    let tree = &tree;
    let part = files.files().div_ceil(READERS);
    let reader = |reader: usize| async move {
        for index in reader * part..files.files().min((reader + 1) * part) {
            let path = tree_path(&files.path(index))?;
            let found = tree.read(&path).await?;
            ensure!(
                found.len() == FILE_BYTES,
                "{path} has {} bytes",
                found.len()
            );
        }
        anyhow::Ok(())
    };
    try_join_all((0..READERS).map(reader)).await?;
    Ok(began.elapsed().as_secs_f64())
}

/// Opens a large tree and lists a directory.
pub(in crate::cluster) fn run_open(bench: &mut Bench) -> Result<Vec<Row>> {
    let count = bench.count(MANY);
    let layout = Layout::new(count, FileSizes::Short);
    let directory = bench.scratch.join("many");
    say(&format!("making {count} files"));
    write_to_disk(&layout, &directory)?;
    let _inside = bench.runtime.enter();
    let place = Place::new()?;
    let store: Arc<dyn Store> = Arc::new(bench.runtime.block_on(place.open(|_| {}))?);
    let snapshot = import_all(&repository(&store), &directory, 2)?;
    let small = Layout::new(100, FileSizes::Short);
    let directory = bench.scratch.join("few");
    write_to_disk(&small, &directory)?;
    let few = import_all(&repository(&store), &directory, 2)?;
    let path = layout.path(count / 2);
    let (parent, _) = path.rsplit_once('/').context("files are in directories")?;
    let parent = tree_path(parent)?;
    bench.runtime.block_on(async {
        let (sql, files) = (place.database.wire(), Wire::http(place.s3.address()));
        let change = |options: &mut elevo_store_cluster::Options| {
            options.database = place.database.url_through(&sql);
            options.bucket.endpoint = Some(format!("http://{}", files.address()));
            options.connections = 1;
            // Nothing in the background after the beginning.
            options.beat = Duration::from_secs(3600);
            options.check = Duration::from_secs(3600);
            options.upkeep = Duration::from_secs(3600);
        };
        let store: Arc<dyn Store> = Arc::new(place.open(change).await?);
        // Prepares the statements.
        let tree = StateTree::open(&repository(&store), few).await?;
        tree.list(&TreePath::root(), None, usize::MAX).await?;
        // After the statements of the beginning.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = (sql.trips().trips, files.trips().trips);
        sql.delay(TRIP);
        files.delay(TRIP);
        let began = Instant::now();
        let tree = StateTree::open(&repository(&store), snapshot).await?;
        let listed = tree.list(&parent, None, usize::MAX).await?;
        let waited = began.elapsed().as_secs_f64() / TRIP.as_secs_f64();
        ensure!(!listed.is_empty(), "{parent} has files");
        // Half of the trips are checks of the connection, which no call waits for.
        let sql = (sql.trips().trips - before.0).div_ceil(2) as f64;
        let files = (files.trips().trips - before.1) as f64;
        say(&format!(
            "{sql} round trips to PostgreSQL and {files} requests to S3 took {waited:.2} trips"
        ));
        Ok(vec![Row {
            name: format!("round trips of opening and listing a directory among {count} files"),
            unit: Unit::Count,
            ours: Samples::of(waited.floor()).figure(),
            peer: None,
            bar: Some(Bar::AtMost(6.0)),
        }])
    })
}
