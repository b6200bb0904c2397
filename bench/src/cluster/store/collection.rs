//! A collection of millions of objects beside committers of the same tenant.
//!
//! The collection marks and sweeps everything as usual: it begins at a ref, reads the directories,
//! which are real, looks up each chunk, and reads the whole index. Only the chunks have no bytes: their
//! rows are written directly, as commits of ten chunks leave them that were bundled. No collection
//! reads a chunk. Every tenth of these commits is garbage.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_engine::{
    Attributes, CommitInfo, Expected, GcOptions, GcProgress, GcRun, GcScope, StateTree, Store,
};
use elevo_objects::{Content, Entry, Hash, Mode, SnapshotId};
use elevo_store_cluster::ClusterStore;
use elevo_testkit::s3::S3;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use sqlx::{Connection, PgConnection};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use super::Place;
use crate::cluster::Bench;
use crate::cluster::worker::{Job, Parent, Work, Worker};
use crate::data::noise;
use crate::engine::fixture::{commit_info, repository, tree_path};
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const OBJECTS: usize = 10_000_000;
/// Chunks of a commit, their size, and commits of a file of 16 MiB.
const CHUNKS: usize = 10;
const CHUNK_BYTES: usize = 2_500;
const PACKS: usize = 640;
/// Every so many commits, one is garbage.
const GARBAGE: usize = 10;
/// Packs that no process makes: the number of a node that does not exist, in the upper bits.
const FIRST_PACK: i64 = 10_000_000 << 39;
/// Files of a directory, and directories of one above.
const FAN_OUT: usize = 100;
const COMMITTERS: usize = 4;
/// Commits of each committer alone, before the collection and after it.
const ALONE: usize = 400;
const WARM_UP: usize = 40;
/// Files that a committer changes by turns.
const EDITED: usize = 500;
/// Cache for files in S3 of the collecting process. It counts.
const CACHE_BYTES: u64 = 32 << 20;
/// Interval at which the waits of commits are read.
const LOOK: Duration = Duration::from_millis(10);
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// The rows of a file: its packs, and their chunks.
const FILL: &str = "WITH file AS ( \
        INSERT INTO store.files (id, tenant, key, state, node, size, live) \
        VALUES ($2, $1, decode(md5($2::text), 'hex'), 'l', 0, $3::int8 * $4, $3::int8 * $4)), \
    packed AS ( \
        INSERT INTO store.packs (tenant, id, file, base, size, objects, live, removals) \
        SELECT $1, $2 + n, $2, n::int8 * $4, $4, $5, $5, 0 FROM generate_series(0, $3 - 1) AS n) \
    INSERT INTO store.objects (pack, tenant, start, size, seen, place, kind, hash) \
    SELECT $2 + (o.n - 1) / $5, $1, (o.n - 1) % $5 * $4 / $5, $4 / $5, 0, (o.n - 1) % $5, 'c', o.hash \
    FROM unnest($6::bytea[]) WITH ORDINALITY AS o (hash, n)";

/// The commit that has waited longest for a lock at this moment: for how many seconds, the kind of the
/// lock, and the statement that has it.
const WAIT: &str = "SELECT longest.wait, longest.locktype, coalesce(( \
        SELECT left(b.query, 60) FROM pg_stat_activity AS b \
        WHERE b.pid = ANY (pg_blocking_pids(longest.pid)) LIMIT 1), '') \
    FROM ( \
        SELECT extract(epoch FROM clock_timestamp() - l.waitstart)::float8 AS wait, l.locktype, l.pid \
        FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid \
        WHERE NOT l.granted AND l.waitstart IS NOT NULL AND a.datname = current_database() \
            AND a.query LIKE 'SELECT store.commit_1(%' \
        ORDER BY wait DESC LIMIT 1) AS longest";

/// The job of the collecting process.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cluster) struct Share {
    prefix: String,
}

/// Its result.
#[derive(Debug, Serialize, Deserialize)]
struct Done {
    seconds: f64,
    /// Seconds until the objects were swept.
    marking: f64,
    seen: u64,
    removed: u64,
    /// Bytes of memory at most, above those before.
    memory: u64,
}

pub(in crate::cluster) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let objects = bench.count(OBJECTS);
    let result = bench.scratch.join("collection.json");
    let _inside = bench.runtime.enter();
    let place = Place::new()?;
    bench.runtime.block_on(measure(&place, objects, result))
}

async fn open(place: &Place) -> Result<ClusterStore> {
    // The upkeep would delete files that were never uploaded.
    place.open(|options| options.upkeep = NEVER).await
}

async fn measure(place: &Place, objects: usize, result: PathBuf) -> Result<Vec<Row>> {
    let store: Arc<dyn Store> = Arc::new(open(place).await?);
    fill(place, &store, objects).await?;
    let mut committers = Vec::new();
    for number in 0..COMMITTERS {
        committers.push(Committer::new(&store, number).await?);
    }
    let job = Job {
        url: place.database.url(),
        direct: None,
        process: 0,
        result,
        work: Work::Collection(Share {
            prefix: place.s3.prefix.clone(),
        }),
    };
    let mut worker = Worker::start(&job)?;
    say("committing alone");
    let mut alone = [Samples::new(), Samples::new()];
    let limit = |count| move |done: usize| done >= count;
    commit_all(&mut committers, limit(WARM_UP)).await?;
    let mut alone_longest = 0.0_f64;
    let times = commit_all(&mut committers, limit(ALONE)).await?;
    alone_longest = times.iter().copied().fold(alone_longest, f64::max);
    times.iter().for_each(|time| alone[0].push(*time));
    say("committing beside the collection");
    let is_over = Arc::new(AtomicBool::new(false));
    let waits = tokio::spawn(longest_wait(place.database.url(), is_over.clone()));
    worker.tell("collect")?;
    let collecting = tokio::task::spawn_blocking({
        let is_over = is_over.clone();
        move || {
            let done = worker.end::<Done>();
            is_over.store(true, Ordering::Relaxed);
            done
        }
    });
    let beside = commit_all(&mut committers, |_| is_over.load(Ordering::Relaxed)).await?;
    let done = collecting.await??;
    let wait = waits.await??;
    say("committing alone again");
    commit_all(&mut committers, limit(WARM_UP)).await?;
    let times = commit_all(&mut committers, limit(ALONE)).await?;
    alone_longest = times.iter().copied().fold(alone_longest, f64::max);
    times.iter().for_each(|time| alone[1].push(*time));
    say(&format!(
        "the collection took {:.0} s, {:.0} s of them until the sweep; it saw {} objects and deleted {}; \
         alone: {:.2} ms before, {:.2} ms after",
        done.seconds,
        done.marking,
        done.seen,
        done.removed,
        alone[0].figure().median * 1000.0,
        alone[1].figure().median * 1000.0,
    ));
    let whole_files = objects / (PACKS * CHUNKS) * (PACKS * CHUNKS);
    let garbage = whole_files / GARBAGE;
    ensure!(
        done.seen >= whole_files as u64 && done.removed >= garbage as u64,
        "the collection has deleted the garbage: {done:?}"
    );
    Ok(rows(objects, &alone, alone_longest, &beside, wait, &done))
}

fn rows(
    objects: usize,
    alone: &[Samples; 2],
    alone_longest: f64,
    beside: &[f64],
    wait: f64,
    done: &Done,
) -> Vec<Row> {
    let mut times = Samples::new();
    beside.iter().for_each(|time| times.push(*time));
    let longest = beside.iter().copied().fold(0.0, f64::max);
    // With the slower one, the ratio would be smaller.
    let [before, after] = alone.each_ref().map(Samples::figure);
    let peer = if before.median < after.median {
        before
    } else {
        after
    };
    let single = |value| Samples::of(value).figure();
    let name = format!("a collection of {objects} objects");
    let row = |name: String, unit, ours, bar| Row {
        name,
        unit,
        ours,
        peer: None,
        bar,
    };
    vec![
        Row {
            peer: Some(("alone", peer)),
            ..row(
                format!("commit of {COMMITTERS} committers beside {name}"),
                Unit::Milliseconds,
                times.figure(),
                Some(Bar::AtMostTimes(2.0)),
            )
        },
        row(
            "the same: longest wait for a lock".into(),
            Unit::Milliseconds,
            single(wait),
            Some(Bar::AtMost(100.0)),
        ),
        Row {
            peer: Some(("alone", single(alone_longest))),
            ..row(
                "the same: longest commit".into(),
                Unit::Milliseconds,
                single(longest),
                None,
            )
        },
        row(
            format!("memory of {name}"),
            Unit::Kibibytes,
            single(done.memory as f64),
            Some(Bar::AtMost(256.0 * 1024.0)),
        ),
        row(
            format!("time of {name}"),
            Unit::Seconds,
            single(done.seconds),
            None,
        ),
    ]
}

/// The key of a chunk without bytes.
fn chunk(number: usize) -> Hash {
    Hash::from_bytes(*blake3::hash(&number.to_le_bytes()).as_bytes())
}

/// Writes the rows of the chunks, and a tree of those that are not garbage.
async fn fill(place: &Place, store: &Arc<dyn Store>, objects: usize) -> Result<()> {
    // Gives a number to the tenant.
    drop(store.writing(TenantId::LOCAL).await?);
    let mut server = PgConnection::connect(&place.database.url()).await?;
    sqlx::query("SET synchronous_commit = off")
        .execute(&mut server)
        .await?;
    let tenant: i32 = sqlx::query_scalar("SELECT no FROM store.tenants")
        .fetch_one(&mut server)
        .await?;
    let of_file = PACKS * CHUNKS;
    let files = objects / of_file;
    say(&format!("writing the rows of {files} files"));
    for file in 0..files {
        let chunks = file * of_file..(file + 1) * of_file;
        let hashes: Vec<_> = chunks.map(|n| chunk(n).as_bytes().to_vec()).collect();
        sqlx::query(FILL)
            .bind(tenant)
            .bind(FIRST_PACK + (file * PACKS) as i64)
            .bind(PACKS as i32)
            .bind((CHUNKS * CHUNK_BYTES) as i32)
            .bind(CHUNKS as i32)
            .bind(hashes)
            .execute(&mut server)
            .await?;
    }
    say("writing the tree");
    let tree = StateTree::empty(&repository(store));
    let is_live = |chunk: &usize| !(chunk / CHUNKS).is_multiple_of(GARBAGE);
    for (file, live) in (0..files * of_file).filter(is_live).enumerate() {
        let (directory, name) = (file / FAN_OUT, file % FAN_OUT);
        let (above, directory) = (directory / FAN_OUT, directory % FAN_OUT);
        let path = tree_path(&format!("{above:03}/{directory:02}/{name:02}"))?;
        let content = Content::Chunk {
            hash: chunk(live),
            size: CHUNK_BYTES as u64,
        };
        let mode = Mode::FILE;
        tree.put(&path, Entry::File { mode, content }).await?;
        if (file + 1).is_multiple_of(FAN_OUT * FAN_OUT) {
            tree.settle().await?;
        }
    }
    let reference = Some(("main".into(), Expected::Absent));
    let info = CommitInfo {
        reference,
        ..commit_info(None)
    };
    tree.commit(info).await?;
    // As the server does at some time by itself.
    sqlx::query("ANALYZE store.objects, store.packs, store.files")
        .execute(&mut server)
        .await?;
    Ok(server.close().await?)
}

/// An agent that changes files of its tree, and commits each change.
struct Committer {
    number: usize,
    tree: StateTree,
    last: Option<SnapshotId>,
    commits: usize,
}

impl Committer {
    async fn new(store: &Arc<dyn Store>, number: usize) -> Result<Self> {
        let mut committer = Self {
            number,
            tree: StateTree::empty(&repository(store)),
            last: None,
            commits: 0,
        };
        for _ in 0..EDITED {
            committer.write().await?;
        }
        committer.commit().await?;
        Ok(committer)
    }

    async fn write(&mut self) -> Result<()> {
        self.commits += 1;
        let (commits, file) = (self.commits as u64, self.commits % EDITED);
        let path = tree_path(&format!("d{:02}/f{:02}", file / 20, file % 20))?;
        let data = noise(4096, "collection", (self.number as u64) << 40 | commits);
        let attributes = Attributes {
            mode: None,
            modified: Some(Timestamp::EPOCH),
        };
        let written = self.tree.write(&path, Bytes::from(data), attributes).await;
        Ok(written?)
    }

    async fn commit(&mut self) -> Result<()> {
        let expected = self.last.map_or(Expected::Absent, Expected::At);
        let info = CommitInfo {
            reference: Some((format!("committer{}", self.number), expected)),
            ..commit_info(self.last)
        };
        self.last = Some(self.tree.commit(info).await?);
        Ok(())
    }
}

/// Commits of all at once, until each has enough. Returns the times of the commits.
async fn commit_all(
    committers: &mut [Committer],
    is_enough: impl Fn(usize) -> bool + Copy,
) -> Result<Vec<f64>> {
    let each = committers.iter_mut().map(|committer| async move {
        let mut times = Vec::new();
        while !is_enough(times.len()) {
            committer.write().await?;
            let began = Instant::now();
            committer.commit().await?;
            times.push(began.elapsed().as_secs_f64());
        }
        anyhow::Ok(times)
    });
    Ok(try_join_all(each).await?.concat())
}

/// Returns the longest time for which a commit waits for a lock.
async fn longest_wait(url: String, is_over: Arc<AtomicBool>) -> Result<f64> {
    let mut server = PgConnection::connect(&url).await?;
    let mut longest = (0.0, String::new(), String::new());
    while !is_over.load(Ordering::Relaxed) {
        let wait: Option<(f64, String, String)> =
            sqlx::query_as(WAIT).fetch_optional(&mut server).await?;
        if let Some(wait) = wait.filter(|wait| wait.0 > longest.0) {
            longest = wait;
        }
        sleep(LOOK).await;
    }
    let (wait, kind, statement) = longest;
    say(&format!(
        "the longest wait of a commit, {:.0} ms, was for a lock of the kind {kind}: {statement}",
        wait * 1000.0
    ));
    Ok(wait)
}

/// The collecting process.
pub(in crate::cluster) fn work(
    runtime: &Runtime,
    job: &Job,
    share: &Share,
    parent: &mut Parent,
) -> Result<()> {
    let _inside = runtime.enter();
    let s3 = S3 {
        prefix: share.prefix.clone(),
        ..S3::new()
    };
    let mut options = super::options(job.url.clone(), &s3);
    options.upkeep = NEVER;
    options.cache.memory = CACHE_BYTES;
    let store: Arc<dyn Store> = Arc::new(runtime.block_on(ClusterStore::open(options))?);
    parent.turn("ready")?;
    let before = memory("VmRSS:")?;
    let began = Instant::now();
    let (options, progress) = (
        GcOptions {
            scope: GcScope::Full,
            dry_run: false,
            keep_recent: None,
        },
        GcProgress::default(),
    );
    let repository = repository(&store);
    let (report, marking) = runtime.block_on(async {
        let mut run = GcRun::begin(&repository, &options, &progress).await?;
        while run.older_writers().await? > 0 {
            sleep(LOOK).await;
        }
        run.references().await?;
        let marking = began.elapsed().as_secs_f64();
        anyhow::Ok((run.finish().await?, marking))
    })?;
    let done = Done {
        seconds: began.elapsed().as_secs_f64(),
        marking,
        seen: report.objects_seen,
        removed: report.objects_removed,
        memory: memory("VmHWM:")?.saturating_sub(before),
    };
    fs::write(&job.result, serde_json::to_vec(&done)?).context("cannot write the result")
}

/// A number of the state of this process, in bytes.
fn memory(name: &str) -> Result<u64> {
    let state = fs::read_to_string("/proc/self/status")?;
    let line = state.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let number: u64 = number.context("the state has the memory")?.trim().parse()?;
    Ok(number * 1024)
}
