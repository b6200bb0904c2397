//! The size of the index.

use anyhow::Result;
use sqlx::{Connection, PgConnection};

use super::Place;
use crate::cluster::Bench;
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};

const OBJECTS: usize = 10_000_000;
/// Rows of one statement.
const BATCH: usize = 10_000;

/// Rows of a pack with random hashes, as a commit writes them.
const ROWS: &str = "INSERT INTO store.objects (pack, tenant, start, size, seen, place, kind, hash) \
    SELECT $1, 1, n, 6000, 0, n, 'c', sha256(int8send($1 * 100000 + n)) FROM generate_series(1, $2) AS n";

pub(in crate::cluster) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let objects = bench.count(OBJECTS);
    bench.runtime.block_on(async {
        let place = Place::new()?;
        // Creates the tables.
        let store = place.open(|_| {}).await?;
        let mut server = PgConnection::connect(&place.database.url()).await?;
        let relaxed = "SET synchronous_commit = off";
        sqlx::query(relaxed).execute(&mut server).await?;
        for pack in 0..objects / BATCH {
            sqlx::query(ROWS)
                .bind(pack as i64)
                .bind(BATCH as i32)
                .execute(&mut server)
                .await?;
        }
        let size = "SELECT sum(pg_total_relation_size(inhrelid))::float8 FROM pg_inherits \
                    WHERE inhparent = 'store.objects'::regclass";
        let size: f64 = sqlx::query_scalar(size).fetch_one(&mut server).await?;
        store.close().await?;
        Ok(vec![Row {
            name: format!("bytes of an object in the index among {objects}"),
            unit: Unit::Count,
            ours: Samples::of(size / objects as f64).figure(),
            peer: None,
            bar: Some(Bar::AtMost(180.0)),
        }])
    })
}
