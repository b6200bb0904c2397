//! The proxy in front of a real PostgreSQL server.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "a test measures a delay")]

use std::time::{Duration, Instant};

use elevo_testkit::postgres::{self, Database};
use elevo_testkit::wire::{Direction, Fault, Wire, expect_trips};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Error};

async fn connect(database: &Database, wire: &Wire) -> PgConnection {
    let url = database.url_through(wire);
    PgConnection::connect(&url)
        .await
        .expect("the server accepts connections")
}

/// Executes a statement in one round trip, if it has no parameters.
async fn execute(connection: &mut PgConnection, statement: &'static str) -> Result<(), Error> {
    sqlx::raw_sql(statement).execute(connection).await?;
    Ok(())
}

async fn rows(connection: &mut PgConnection) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM t")
        .fetch_one(connection)
        .await
        .expect("the table exists")
}

#[tokio::test]
async fn round_trips_to_a_real_server_are_counted() {
    let database = Database::create();
    let wire = database.wire();
    let mut connection = connect(&database, &wire).await;
    let started = wire.trips();
    assert_eq!((started.connections, started.unreadable), (1, 0));
    assert!(started.startup_trips > 0);

    expect_trips(&wire, 1, execute(&mut connection, "CREATE TABLE t (n int)"))
        .await
        .unwrap();
    expect_trips(
        &wire,
        1,
        execute(
            &mut connection,
            "INSERT INTO t SELECT generate_series(1, 9)",
        ),
    )
    .await
    .unwrap();
    // A new statement is prepared first.
    assert_eq!(expect_trips(&wire, 2, rows(&mut connection)).await, 9);
    assert_eq!(expect_trips(&wire, 1, rows(&mut connection)).await, 9);
    expect_trips(&wire, 1, connection.ping()).await.unwrap();
}

#[tokio::test]
async fn copies_in_both_directions_count_once() {
    let database = Database::create();
    let wire = database.wire();
    let mut connection = connect(&database, &wire).await;
    execute(&mut connection, "CREATE TABLE t (s text)")
        .await
        .unwrap();

    // Longer than a piece, and full of bytes that end a round trip elsewhere.
    let rows = "Z\n".repeat(100_000);
    expect_trips(&wire, 1, async {
        let mut copy = connection.copy_in_raw("COPY t FROM STDIN").await?;
        copy.send(rows.as_bytes()).await?;
        copy.finish().await
    })
    .await
    .unwrap();
    expect_trips(&wire, 1, execute(&mut connection, "SELECT * FROM t"))
        .await
        .unwrap();
    assert_eq!(wire.trips().unreadable, 0);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_has_happened() {
    let database = Database::create();
    let wire = database.wire();
    let mut connection = connect(&database, &wire).await;
    execute(&mut connection, "CREATE TABLE t (n int)")
        .await
        .unwrap();

    wire.set(Fault::CutAtTrip { nth: 1 });
    execute(&mut connection, "INSERT INTO t VALUES (1)")
        .await
        .unwrap_err();

    let mut again = connect(&database, &wire).await;
    assert_eq!(rows(&mut again).await, 1);
}

#[tokio::test]
async fn a_statement_that_is_cut_on_its_way_has_not_happened() {
    let database = Database::create();
    let wire = database.wire();
    let mut connection = connect(&database, &wire).await;
    execute(&mut connection, "CREATE TABLE t (n int)")
        .await
        .unwrap();

    wire.set(Fault::Cut {
        direction: Direction::Up,
        after: 10,
    });
    execute(&mut connection, "INSERT INTO t VALUES (1)")
        .await
        .unwrap_err();

    let mut again = connect(&database, &wire).await;
    assert_eq!(rows(&mut again).await, 0);
}

#[tokio::test]
async fn a_fence_keeps_a_real_server_away_until_it_heals() {
    let database = Database::create();
    let wire = database.wire();
    let mut connection = connect(&database, &wire).await;

    wire.fence();
    connection.ping().await.unwrap_err();
    let url = database.url_through(&wire);
    PgConnection::connect(&url).await.unwrap_err();

    wire.heal();
    connect(&database, &wire).await.ping().await.unwrap();
}

#[tokio::test]
async fn each_round_trip_to_a_real_server_takes_the_delay() {
    let database = Database::create();
    let wire = database.wire();
    let mut connection = connect(&database, &wire).await;
    let trip = Duration::from_millis(5);
    wire.delay(trip);
    let start = Instant::now();
    expect_trips(&wire, 4, async {
        for _ in 0..4 {
            connection.ping().await.unwrap();
        }
    })
    .await;
    assert!(start.elapsed() >= 4 * trip);
}

#[tokio::test]
async fn a_database_is_deleted_with_its_connections() {
    let database = Database::create();
    let name = database.name().to_owned();
    let mut connection = PgConnection::connect(&database.url()).await.unwrap();
    drop(database);

    connection.ping().await.unwrap_err();
    let mut server = PgConnection::connect(&postgres::url()).await.unwrap();
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_database WHERE datname = $1")
        .bind(name)
        .fetch_one(&mut server)
        .await
        .unwrap();
    assert_eq!(left, 0);
}
