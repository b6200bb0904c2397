//! Commits of one changed file among many, compared with a bare statement that writes the same rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use elevo_engine::{CommitInfo, Expected, StateTree, Store};
use elevo_objects::SnapshotId;
use elevo_testkit::wire::Wire;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::Place;
use super::peer::Statements;
use crate::cluster::Bench;
use crate::data::{Dataset, FileSizes, Layout, noise, write_to_disk};
use crate::engine::fixture::{Edit, commit_info, dice, edited, import_all, repository, tree_path};
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const FILES: usize = 100_000;
const ROUNDS: usize = 200;
const COUNTED: u64 = 20;
const WARM_UP: usize = 20;
/// Added to each round trip.
const DELAY: Duration = Duration::from_millis(1);

pub(in crate::cluster) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let files = bench.count(FILES);
    let layout = Layout::new(files, FileSizes::Ordinary);
    let directory = bench.scratch.join("tree");
    say(&format!("making {files} files"));
    write_to_disk(&layout, &directory)?;
    let place = Place::new()?;
    // The engine blocks on calls of the store.
    let _inside = bench.runtime.enter();
    let store = bench.runtime.block_on(place.open(|_| {}))?;
    let store: Arc<dyn Store> = Arc::new(store);
    let began = Instant::now();
    let snapshot = import_all(&repository(&store), &directory, 2)?;
    say(&format!(
        "imported in {:.1} s",
        began.elapsed().as_secs_f64()
    ));
    bench.runtime.block_on(measure(
        &place,
        &store,
        layout,
        snapshot,
        bench.count(ROUNDS),
    ))
}

async fn measure(
    place: &Place,
    store: &Arc<dyn Store>,
    layout: Layout,
    snapshot: SnapshotId,
    rounds: usize,
) -> Result<Vec<Row>> {
    let files = layout.files();
    let trips = count_trips(place, layout, snapshot).await?;
    let mut bare = Statements::open(&place.database.url(), 100_000).await?;
    let mut edits = Edits::of(store, layout, snapshot, "commit").await?;
    let times = in_turns(&mut edits, &mut bare, rounds).await?;
    let wire = place.database.wire();
    wire.delay(DELAY);
    let slow: Arc<dyn Store> = Arc::new(
        place
            .open(|options| options.database = place.database.url_through(&wire))
            .await?,
    );
    let mut edits = Edits::of(&slow, layout, snapshot, "slow").await?;
    let mut bare = Statements::open(&place.database.url_through(&wire), 100_001).await?;
    let [slow, _, slow_bare] = in_turns(&mut edits, &mut bare, rounds / 2).await?;
    let [read, unread, peer] = times;
    let row = |name: String, ours: &Samples, peer: &Samples, bar| Row {
        name,
        unit: Unit::Milliseconds,
        ours: ours.figure(),
        peer: Some(("bare statement", peer.figure())),
        bar,
    };
    let times = |limit| Some(Bar::AtMostTimes(limit));
    let name = |how: &str| format!("commit of 1 file in {files} ({how})");
    let more = (slow.figure().median - slow_bare.figure().median) * 1000.0;
    Ok(vec![
        Row {
            name: "round trips of a commit to PostgreSQL".into(),
            unit: Unit::Count,
            ours: Samples::of(trips.0).figure(),
            peer: None,
            bar: Some(Bar::AtMost(1.0)),
        },
        Row {
            name: "requests of a commit to S3".into(),
            unit: Unit::Count,
            ours: Samples::of(trips.1).figure(),
            peer: None,
            bar: Some(Bar::AtMost(0.0)),
        },
        row(name("read before"), &read, &peer, times(1.5)),
        row(name("never read"), &unread, &peer, times(2.0)),
        row(name("1 ms on each round trip"), &slow, &slow_bare, None),
        Row {
            name: "the same: difference".into(),
            unit: Unit::Milliseconds,
            ours: Samples::of(more / 1000.0).figure(),
            peer: None,
            bar: Some(Bar::AtMost(0.5)),
        },
    ])
}

/// Commits of files read before and never read, and bare statements, in turns.
async fn in_turns(edits: &mut Edits, bare: &mut Statements, rounds: usize) -> Result<[Samples; 3]> {
    let mut times = [const { Samples::new() }; 3];
    for round in 0..WARM_UP + rounds {
        let mut rows = None;
        for turn in 0..3 {
            let which = (round + turn) % 3;
            let seconds = match which {
                0 => edits.commit_next(Edit::ReadBefore).await?,
                1 => edits.commit_next(Edit::NeverRead).await?,
                _ => {
                    let like = match rows.take() {
                        Some(rows) => rows,
                        None => bare.last_rows().await?,
                    };
                    bare.write(&like).await?
                }
            };
            if which == 0 {
                rows = Some(bare.last_rows().await?);
            }
            if round >= WARM_UP {
                times[which].push(seconds);
            }
        }
    }
    Ok(times)
}

/// Returns the round trips of a commit of a file that was read, to PostgreSQL and to S3.
async fn count_trips(place: &Place, layout: Layout, snapshot: SnapshotId) -> Result<(f64, f64)> {
    let (sql, files) = (place.database.wire(), Wire::http(place.s3.address()));
    let change = |options: &mut elevo_store_cluster::Options| {
        options.database = place.database.url_through(&sql);
        options.bucket.endpoint = Some(format!("http://{}", files.address()));
        options.connections = 1;
        // Nothing in the background.
        options.beat = Duration::from_secs(3600);
        options.check = Duration::from_secs(3600);
        options.upkeep = Duration::from_secs(3600);
    };
    let store: Arc<dyn Store> = Arc::new(place.open(change).await?);
    let mut edits = Edits::of(&store, layout, snapshot, "count").await?;
    let mut trips = (0.0, 0.0);
    let connections = sql.trips().connections;
    for round in 0..WARM_UP as u64 + COUNTED {
        let path = edits.prepare(Edit::ReadBefore).await?;
        edits.commit(&path).await?;
        // Waits for the check of the only connection.
        let settle = || store.reference(elevo_core::TenantId::LOCAL, "none");
        settle().await?;
        let before = (sql.trips().trips, files.trips().trips);
        edits.commit(&path).await?;
        settle().await?;
        if round >= WARM_UP as u64 {
            // The pool checks its connection after each statement, when the caller has the result
            // already; two trips are those of `settle`.
            trips.0 += (sql.trips().trips - before.0 - 2) as f64 / 2.0;
            trips.1 += (files.trips().trips - before.1) as f64;
        }
    }
    ensure!(
        sql.trips().connections == connections,
        "a connection was lost"
    );
    Ok((trips.0 / COUNTED as f64, trips.1 / COUNTED as f64))
}

/// A tree that stays open, and is changed and committed repeatedly.
pub(super) struct Edits {
    tree: StateTree,
    layout: Layout,
    last: SnapshotId,
    branch: String,
    dice: Xoshiro256PlusPlus,
}

impl Edits {
    async fn of(
        store: &Arc<dyn Store>,
        layout: Layout,
        snapshot: SnapshotId,
        branch: &str,
    ) -> Result<Self> {
        let mut edits = Self {
            tree: StateTree::open(&repository(store), snapshot).await?,
            layout,
            last: snapshot,
            branch: branch.into(),
            dice: dice(branch),
        };
        let mut first = edits.info();
        first.reference = Some((edits.branch.clone(), Expected::Any));
        edits.last = edits.tree.commit(first).await?;
        Ok(edits)
    }

    fn info(&self) -> CommitInfo {
        CommitInfo {
            reference: Some((self.branch.clone(), Expected::At(self.last))),
            ..commit_info(Some(self.last))
        }
    }

    async fn prepare(&mut self, edit: Edit) -> Result<String> {
        let path = self
            .layout
            .path(self.dice.random_range(0..self.layout.files()));
        if edit == Edit::ReadBefore {
            let path = tree_path(&path)?;
            self.tree.read(&path).await?;
            // The nodes of the times as well.
            self.tree.stat(&path).await?;
        }
        Ok(path)
    }

    async fn commit_next(&mut self, edit: Edit) -> Result<f64> {
        let path = self.prepare(edit).await?;
        self.commit(&path).await
    }

    /// Writes a file and commits. Returns the seconds that both took together.
    async fn commit(&mut self, path: &str) -> Result<f64> {
        let path = tree_path(path)?;
        let data = Bytes::from(noise(4096, "commit", self.dice.random()));
        let info = self.info();
        let began = Instant::now();
        self.tree.write(&path, data, edited()).await?;
        self.last = self.tree.commit(info).await?;
        Ok(began.elapsed().as_secs_f64())
    }
}
