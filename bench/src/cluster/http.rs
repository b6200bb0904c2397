//! Merges over HTTP with the catalog in PostgreSQL, compared with the same server on SQLite. Has the
//! requirements of [`crate::merge`], and of the other measures.

use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use elevo_testkit::postgres::Database;
use sqlx::{Connection, PgConnection};

use super::{Bench, fixture};
use crate::engine::short;
use crate::measure::Samples;
use crate::merge::http::changed_workspaces;
use crate::merge::projects::{Served, Workspace};
use crate::merge::{self, CHANGED};
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

/// The setting of the server that names the database of its catalog.
const SETTING: &str = "CATALOG_URL";

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let database = fixture::database()?;
    let threads = thread::available_parallelism()?.get();
    let mut merges = merge::Bench::new(&bench.scratch, bench.quick, threads)?;
    let files = merges.medium();
    let [ours, peer] = merge_in_turns(&mut merges, files, &database)?;
    bench.runtime.block_on(check_used(&database))?;
    Ok(vec![Row {
        name: format!(
            "merge of {CHANGED} changes in {} files over HTTP on PostgreSQL",
            short(files)
        ),
        unit: Unit::Milliseconds,
        ours: ours.figure(),
        peer: Some(("on SQLite", peer.figure())),
        bar: Some(Bar::AtMostTimes(1.5)),
    }])
}

/// One server with its waiting workspaces.
struct Contender {
    served: Served,
    waiting: Vec<Workspace>,
    times: Samples,
}

impl Contender {
    fn start(bench: &mut merge::Bench, files: usize, settings: &[(&str, &str)]) -> Result<Self> {
        let served = Served::start_with(bench, &[files], settings)?;
        let waiting = changed_workspaces(bench, &served, files)?;
        Ok(Self {
            served,
            waiting,
            times: Samples::new(),
        })
    }
}

fn merge_in_turns(
    bench: &mut merge::Bench,
    files: usize,
    database: &Database,
) -> Result<[Samples; 2]> {
    let url = database.url();
    let mut both = [
        Contender::start(bench, files, &[(SETTING, &url)])?,
        Contender::start(bench, files, &[])?,
    ];
    rustix::fs::sync();
    say("merging");
    let rounds = both[0].waiting.len();
    for round in 0..rounds {
        for turn in 0..2 {
            let one = &mut both[(round + turn) % 2];
            let next = one.waiting.pop().context("one for each round")?;
            let began = Instant::now();
            let merged = next.merge_whole(&one.served.server, CHANGED);
            bench.block_on(merged)?;
            // The first merge fills the caches that the others use.
            if round > 0 {
                one.times.push(began.elapsed().as_secs_f64());
            }
        }
    }
    Ok(both.map(|one| one.times))
}

/// Fails unless the server has its projects in the database: a server that does not know the setting
/// would be compared with itself.
async fn check_used(database: &Database) -> Result<()> {
    let mut connection = PgConnection::connect(&database.url()).await?;
    let count = sqlx::query_scalar("SELECT count(*) FROM landings");
    let count: i64 = count
        .fetch_one(&mut connection)
        .await
        .context("the server does not use its setting CATALOG_URL")?;
    ensure!(count > 0, "the server does not use its setting {SETTING}");
    Ok(connection.close().await?)
}
