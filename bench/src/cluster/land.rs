//! A landing of ten changed paths, compared with one bare statement that writes the same rows.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use elevo_catalog::{Landing, PostgresCatalog};
use elevo_objects::SnapshotId;
use elevo_testkit::wire::Wire;
use serde_json::json;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection, PgPool};

use super::{Bench, fixture};
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};

/// Paths that one landing changes.
const CHANGED: usize = 10;
/// Landings of each contender.
const ROUNDS: usize = 300;
/// Landings that the counted round trips are divided by.
const COUNTED: u64 = 50;
/// Landings that prepare statements and fill caches.
const WARM: usize = 5;

/// The rows of `land_1` in one statement, which decides nothing.
const BARE: &str = "WITH landed AS ( \
        INSERT INTO landings (project, sequence, snapshot, parent, kind, api_key, message, counts, created) \
        VALUES ($1, $2, $3, $4, 'merge', $5, 'work', $6, $7)), \
    changed AS ( \
        INSERT INTO versions (project, sequence, path, kind, entry_before, entry_after, files, whole, algorithm) \
        SELECT $1, $2, path, 'modified', before, after, 1, false, 'text' \
        FROM unnest($8::bytea[], $9::bytea[], $10::bytea[]) one (path, before, after)), \
    noted AS ( \
        INSERT INTO outbox (tenant, kind, subject, at, data) \
        VALUES ($11, 'project.landed', $1, $7, $12)) \
    UPDATE projects SET head = $3, sequence = $2, updated = $7 WHERE id = $1";

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let rounds = bench.count(ROUNDS);
    let database = fixture::database()?;
    let (times, trips) = bench.runtime.block_on(async {
        let direct = database.url();
        let wire = database.wire();
        let opened = fixture::open(&database.url_through(&wire), 1, Some(direct.clone())).await?;
        fixture::furnish(&opened).await?;
        let trips = count_trips(&opened, &wire).await?;
        opened.close().await;
        let ours = fixture::open(&direct, 1, None).await?;
        let times = in_turns(&ours, &direct, rounds).await?;
        ours.close().await;
        anyhow::Ok((times, trips))
    })?;
    let [ours, bare] = times;
    Ok(vec![
        Row {
            name: format!("round trips of a landing of {CHANGED} paths"),
            unit: Unit::Count,
            ours: Samples::of(trips).figure(),
            peer: None,
            bar: Some(Bar::AtMost(2.0)),
        },
        Row {
            name: format!("a landing of {CHANGED} paths"),
            unit: Unit::Milliseconds,
            ours: ours.figure(),
            peer: Some(("bare statement", bare.figure())),
            bar: Some(Bar::AtMostTimes(1.5)),
        },
    ])
}

/// The head, and the number of landings that made it.
#[derive(Clone, Copy)]
struct Head {
    snapshot: SnapshotId,
    sequence: u64,
}

impl Head {
    async fn read(catalog: &PostgresCatalog) -> Result<Self> {
        let project = catalog
            .project(fixture::TENANT, &fixture::project()?)
            .await?;
        let project = project.context("the project exists")?;
        Ok(Self {
            snapshot: project.head,
            sequence: project.sequence,
        })
    }

    /// The landing that follows this head, and its head.
    fn next(self) -> Result<(Landing, Self)> {
        let sequence = self.sequence + 1;
        let next = fixture::snapshot(&format!("head {sequence}"));
        let landing = fixture::landing(self.snapshot, next, None, CHANGED)?;
        let snapshot = next;
        Ok((landing, Self { snapshot, sequence }))
    }
}

/// Returns the round trips that the caller of a landing waits for.
async fn count_trips(catalog: &PostgresCatalog, wire: &Wire) -> Result<f64> {
    let mut head = Head::read(catalog).await?;
    let mut before = wire.trips();
    for round in 0..WARM as u64 + COUNTED {
        if round == WARM as u64 {
            before = wire.trips();
        }
        let (landing, next) = head.next()?;
        catalog.land(&landing).await?;
        head = next;
    }
    let found = wire.trips() - before;
    ensure!(found.connections == 0, "a connection was lost: {found:?}");
    // The pool checks its connection after each statement, when the caller has the result already, so
    // half of the round trips are checks. The last check may be missing in both counts.
    let each = (found.trips as f64 / COUNTED as f64).round();
    Ok(if each % 2.0 == 0.0 { each / 2.0 } else { each })
}

/// Times landings and bare statements in turns, each on a pool of one connection.
async fn in_turns(ours: &PostgresCatalog, url: &str, rounds: usize) -> Result<[Samples; 2]> {
    let bare = Bare::open(url).await?;
    let mut numbering = PgConnection::connect(url).await?;
    let mut head = Head::read(ours).await?;
    let mut times = [Samples::new(), Samples::new()];
    for round in 0..WARM + rounds {
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let (landing, next) = head.next()?;
            let seconds = match which {
                0 => {
                    let began = Instant::now();
                    ours.land(&landing).await?;
                    began.elapsed().as_secs_f64()
                }
                _ => bare.land(&landing, next.sequence).await?,
            };
            head = next;
            if round >= WARM {
                times[which].push(seconds);
            }
            // Otherwise the numbering of the events would write beside the next turn. A connection of
            // the pools would be checked at the beginning of that turn.
            sqlx::query("SELECT number_events_1()")
                .execute(&mut numbering)
                .await?;
        }
    }
    bare.pool.close().await;
    ensure!(
        Head::read(ours).await?.sequence == head.sequence,
        "a landing was lost"
    );
    Ok(times)
}

/// The columns of changed paths in their stored form.
type Stored = (Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<Vec<u8>>);

/// The peer: a bare statement, on a pool of one connection like that of the catalog.
struct Bare {
    pool: PgPool,
    stored: Stored,
}

impl Bare {
    async fn open(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            .connect(url)
            .await?;
        // So both write rows of the same size.
        let stored = "SELECT array_agg(path), array_agg(entry_before), array_agg(entry_after) \
                      FROM versions WHERE sequence = 1";
        let stored = sqlx::query_as(stored).fetch_one(&pool).await?;
        Ok(Self { pool, stored })
    }

    /// Writes the rows of a landing; returns the time.
    async fn land(&self, landing: &Landing, sequence: u64) -> Result<f64> {
        let project = landing.project.as_str();
        let (paths, before, after) = &self.stored;
        let began = Instant::now();
        let done = sqlx::query(BARE)
            .bind(project)
            .bind(sequence as i64)
            .bind(&landing.steps[0].snapshot.0.as_bytes()[..])
            .bind(&landing.expected_head.0.as_bytes()[..])
            .bind(landing.steps[0].key.as_str())
            .bind(landing.steps[0].counts.to_string())
            .bind(landing.now.seconds() * 1_000_000)
            .bind(paths)
            .bind(before)
            .bind(after)
            .bind(&landing.tenant.as_bytes()[..])
            .bind(json!({"project": project, "step": sequence}).to_string())
            .execute(&self.pool)
            .await?;
        let seconds = began.elapsed().as_secs_f64();
        ensure!(
            done.rows_affected() == 1,
            "the bare statement found no project"
        );
        Ok(seconds)
    }
}
