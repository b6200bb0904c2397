//! Eight committers of different projects, and the write-ahead log of a commit.

use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_engine::{Commit, Expected, Object, ReferenceUpdate, Store};
use elevo_objects::{Kind, Snapshot, SnapshotId, Tree};
use elevo_store_cluster::ClusterStore;
use futures::future::try_join_all;
use sqlx::{Connection, PgConnection};

use super::Place;
use super::peer::{Rows, Statements};
use crate::cluster::Bench;
use crate::data::noise;
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};

const COMMITTERS: u8 = 8;
/// Rounds of each contender, in turns.
const ROUNDS: usize = 20;
/// Commits of each committer in a round.
const COMMITS: u64 = 25;
/// Objects of a commit, and their size: 25 KB.
const OBJECTS: u64 = 10;
const OBJECT_BYTES: usize = 2_500;

pub(in crate::cluster) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let rounds = bench.count(ROUNDS);
    bench.runtime.block_on(measure(rounds))
}

async fn measure(rounds: usize) -> Result<Vec<Row>> {
    let place = Place::new()?;
    let store = place.open(|_| {}).await?;
    let mut ours: Vec<_> = (0..COMMITTERS).map(Committer::new).collect();
    let mut bare = Vec::new();
    for number in 0..COMMITTERS {
        let url = place.database.url();
        bare.push(Statements::open(&url, 100_000 + i32::from(number)).await?);
    }
    let first = vec![ours[0].next()?];
    ours[0].commit_all(&store, first).await?;
    let rows = bare[0].last_rows().await?;
    let mut times = [const { Samples::new() }; 2];
    // The first round warms up.
    for round in 0..=rounds {
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let commits: Vec<_> = match which {
                0 => ours
                    .iter_mut()
                    .map(Committer::some)
                    .collect::<Result<_>>()?,
                _ => Vec::new(),
            };
            let began = Instant::now();
            match which {
                0 => {
                    let pairs = ours.iter().zip(commits);
                    try_join_all(pairs.map(|(one, some)| one.commit_all(&store, some))).await?;
                }
                _ => {
                    try_join_all(bare.iter_mut().map(|one| writes(one, &rows))).await?;
                }
            }
            let each = began.elapsed().as_secs_f64() / (COMMITS * u64::from(COMMITTERS)) as f64;
            if round > 0 {
                times[which].push(each);
            }
        }
    }
    let [ours_each, bare_each] = times;
    let share = wal_share(&place, &store, &mut ours[0], rows.pack_bytes()).await?;
    Ok(vec![
        Row {
            name: format!("time per commit of {COMMITTERS} committers"),
            unit: Unit::Milliseconds,
            ours: ours_each.figure(),
            peer: Some(("bare statements", bare_each.figure())),
            // 70 % of the rate.
            bar: Some(Bar::AtMostTimes(1.0 / 0.7)),
        },
        Row {
            name: "write-ahead log of a commit of 25 KB: times its bytes".into(),
            unit: Unit::Count,
            ours: share.figure(),
            peer: None,
            bar: Some(Bar::AtMost(1.5)),
        },
    ])
}

async fn writes(bare: &mut Statements, rows: &Rows) -> Result<()> {
    for _ in 0..COMMITS {
        bare.write(rows).await?;
    }
    Ok(())
}

/// Bytes of the log for each byte of a commit, while nothing else writes.
async fn wal_share(
    place: &Place,
    store: &ClusterStore,
    committer: &mut Committer,
    bytes: usize,
) -> Result<Samples> {
    let mut server = PgConnection::connect(&place.database.url()).await?;
    let mut shares = Samples::new();
    let position = async |server: &mut PgConnection| -> Result<f64> {
        let position = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8";
        Ok(sqlx::query_scalar(position).fetch_one(server).await?)
    };
    for _ in 0..10 {
        let before = position(&mut server).await?;
        let commits = committer.some()?;
        committer.commit_all(store, commits).await?;
        let written = position(&mut server).await? - before;
        shares.push(written / COMMITS as f64 / bytes as f64);
    }
    Ok(shares)
}

/// A project with a head that moves.
struct Committer {
    tenant: TenantId,
    number: u64,
    head: Option<SnapshotId>,
}

impl Committer {
    fn new(number: u8) -> Self {
        Self {
            tenant: TenantId::new([number + 1; 16]),
            number: 0,
            head: None,
        }
    }

    /// The next commits, which follow each other.
    fn some(&mut self) -> Result<Vec<Commit>> {
        (0..COMMITS).map(|_| self.next()).collect()
    }

    async fn commit_all(&self, store: &ClusterStore, commits: Vec<Commit>) -> Result<()> {
        for commit in commits {
            store.commit(self.tenant, commit).await?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Commit> {
        self.number += 1;
        let first = u64::from(self.tenant.as_bytes()[0]) << 40 | self.number << 8;
        let object = |n: u64| {
            let data = Bytes::from(noise(OBJECT_BYTES, "committers", first + n));
            let kind = if n == 0 { Kind::Directory } else { Kind::Chunk };
            Object {
                key: kind.key(&data),
                data,
            }
        };
        let objects: Vec<_> = (0..OBJECTS).map(object).collect();
        let snapshot = Snapshot {
            tree: Tree {
                root: Some(objects[0].key.hash),
                count: 1,
                bytes: 1,
            },
            times: None,
            parents: self.head.into_iter().collect(),
            author: "bench".into(),
            message: self.number.to_string(),
            created: Timestamp::EPOCH,
            labels: Default::default(),
        };
        let (id, _) = snapshot.encode()?;
        let moved = ReferenceUpdate {
            name: "main".into(),
            expected: self.head.map_or(Expected::Absent, Expected::At),
            target: Some(id),
        };
        self.head = Some(id);
        Ok(Commit {
            objects,
            snapshots: vec![snapshot],
            references: vec![moved],
            after: Vec::new(),
        })
    }
}
