//! Hosts that vanish without a word: calls end, and keep no connection.

use std::time::Duration;

use elevo_testkit::postgres::{pooler_url, upstream};
use elevo_testkit::wire::{Fault, Wire};
use futures::future::join_all;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, Executor, PgConnection};

use super::Temporary;
use crate::catalog::{Events, Settings};
use crate::conformance::note;
use crate::conformance::samples::furnished;
use crate::error::{Error, Result};
use crate::postgres::{PostgresCatalog, PostgresOptions};

/// Few, so that the calls that hang would have all of them.
const CONNECTIONS: u32 = 2;

fn options() -> PostgresOptions {
    PostgresOptions {
        connections: CONNECTIONS,
        ..PostgresOptions::default()
    }
}

/// Returns the URL of a database whose hosts are these proxies.
fn url_through(temporary: &Temporary, wires: &[Wire]) -> String {
    let own: PgConnectOptions = temporary.0.url().parse().unwrap();
    let hosts = wires.iter().map(|wire| wire.address().to_string());
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let user = own.get_username();
    format!("postgres://{user}@{hosts}/{}", temporary.0.name())
}

fn check_lost(result: &Result<()>) {
    match result {
        // A call that waited for a connection can also succeed.
        Ok(()) | Err(Error::Busy | Error::Failed(_)) => {}
        Err(other) => panic!("{other:?}"),
    }
}

/// Lets all hosts but the last hang one after the other, in the order in which
/// they are used, and checks that the calls end and later ones succeed.
async fn lose_hosts(catalog: &PostgresCatalog, wires: &[Wire]) {
    catalog.set_setting("n", "first").await.unwrap();
    let lost = wires.iter().max_by_key(|wire| wire.trips().trips).unwrap();
    lost.set(Fault::Hang);
    let calls = (0..4 * CONNECTIONS).map(|_| catalog.set_setting("n", "lost"));
    join_all(calls).await.iter().for_each(check_lost);
    while let Err(error) = catalog.set_setting("n", "second").await {
        check_lost(&Err(error));
    }
    let found = catalog.setting("n").await.unwrap();
    assert_eq!(found.as_deref(), Some("second"));
}

/// Both hosts are proxies of the same primary, so that one can be lost.
#[tokio::test]
async fn the_calls_on_a_host_that_vanishes_end_and_another_host_is_used() {
    let temporary = Temporary::new();
    let wires = [temporary.0.wire(), temporary.0.wire()];
    let url = url_through(&temporary, &wires);
    let catalog = PostgresCatalog::open(&url, &options()).await.unwrap();
    lose_hosts(&catalog, &wires).await;
}

/// The direct connection to the database goes on.
#[tokio::test]
async fn the_calls_through_a_pooler_that_vanishes_end_and_another_is_used() {
    let temporary = Temporary::new();
    let pooler = upstream(&pooler_url());
    let wires = [Wire::postgres(pooler.clone()), Wire::postgres(pooler)];
    let url = url_through(&temporary, &wires);
    let options = PostgresOptions {
        direct: Some(temporary.0.url()),
        is_pooled: true,
        ..options()
    };
    let catalog = PostgresCatalog::open(&url, &options).await.unwrap();
    lose_hosts(&catalog, &wires).await;
    catalog.close().await;
}

#[tokio::test]
async fn the_calls_on_the_only_host_end_when_it_vanishes() {
    let temporary = Temporary::new();
    let wires = [temporary.0.wire()];
    let options = PostgresOptions {
        wait: Duration::from_secs(1),
        ..options()
    };
    let url = url_through(&temporary, &wires);
    let catalog = PostgresCatalog::open(&url, &options).await.unwrap();
    catalog.set_setting("n", "first").await.unwrap();
    let mut held = catalog.database.pool().acquire().await.unwrap();
    wires[0].set(Fault::Hang);
    let lost = sqlx::query("SELECT 1").execute(&mut held).await;
    let words = lost.unwrap_err().to_string();
    assert!(
        words.contains("the host of the database was lost"),
        "{words}"
    );
    wires[0].heal();
    while let Err(error) = catalog.set_setting("n", "second").await {
        check_lost(&Err(error));
    }
}

/// The numbering of events, which the follower waits for, needs a lock that
/// another session has.
#[tokio::test]
async fn the_calls_on_a_host_that_is_slow_go_on() {
    let temporary = Temporary::new();
    let catalog = furnished(&temporary).await;
    let own: PgConnectOptions = temporary.0.url().parse().unwrap();
    let mut other = PgConnection::connect_with(&own).await.unwrap();
    let lock = sqlx::query("SELECT pg_advisory_lock(3, 0)");
    lock.execute(&mut other).await.unwrap();
    catalog.add_event(&note("one", 1)).await.unwrap();
    // Longer than the follower waits until it chooses a host again.
    let long = sqlx::query("SELECT pg_sleep(6)");
    long.execute(catalog.database.pool()).await.unwrap();
}

/// The numbering of events fails at each attempt, but the host answers.
#[tokio::test]
async fn the_calls_go_on_while_events_cannot_be_numbered() {
    let temporary = Temporary::new();
    let catalog = furnished(&temporary).await;
    temporary
        .0
        .execute_inside("ALTER FUNCTION number_events_1 RENAME TO hidden");
    // Longer than the interval between two attempts.
    let long = sqlx::query("SELECT pg_sleep(3)");
    long.execute(catalog.database.pool()).await.unwrap();
}

#[tokio::test]
async fn a_statement_without_an_answer_ends_and_leaves_its_connection() {
    let temporary = Temporary::new();
    let options = PostgresOptions {
        connections: 1,
        statement: Duration::from_secs(3),
        ..options()
    };
    let url = temporary.0.url();
    let catalog = PostgresCatalog::open(&url, &options).await.unwrap();
    let pool = catalog.database.pool();
    let endless = || sqlx::query("SELECT pg_sleep(600)");
    let ended = |error: sqlx::Error| {
        let words = error.to_string();
        assert!(words.contains("did not answer in time"), "{words}");
    };
    for _ in 0..3 {
        ended(endless().execute(pool).await.unwrap_err());
    }
    let mut change = catalog.database.write().await.unwrap();
    ended(endless().execute(&mut *change).await.unwrap_err());
    catalog.database.commit(change).await.unwrap_err();
    catalog.check().await.unwrap();
}

/// A change that is dropped leaves no lock, and its connection to the pool.
#[tokio::test]
async fn a_change_that_is_dropped_is_rolled_back() {
    let temporary = Temporary::new();
    let options = PostgresOptions {
        connections: 1,
        ..options()
    };
    let url = temporary.0.url();
    let catalog = PostgresCatalog::open(&url, &options).await.unwrap();
    let before = backend(&catalog).await;
    for _ in 0..3 {
        let mut change = catalog.database.write().await.unwrap();
        let set = sqlx::query("INSERT INTO settings (name, value) VALUES ('n', 'dropped')");
        set.execute(&mut *change).await.unwrap();
        drop(change);
        assert_eq!(catalog.setting("n").await.unwrap(), None);
    }
    assert_eq!(backend(&catalog).await, before);
}

/// The error of a statement that nothing waits for is not taken for the answer
/// to the end of its transaction.
#[tokio::test]
async fn a_change_whose_last_statement_fails_unheard_is_rolled_back() {
    let temporary = Temporary::new();
    let options = PostgresOptions {
        connections: 1,
        ..options()
    };
    let url = temporary.0.url();
    let catalog = PostgresCatalog::open(&url, &options).await.unwrap();
    let own: PgConnectOptions = url.parse().unwrap();
    let mut other = PgConnection::connect_with(&own).await.unwrap();
    let process = backend(&catalog).await;
    other.execute("BEGIN").await.unwrap();
    let set = "INSERT INTO settings (name, value) VALUES ('n', 'set')";
    other.execute(set).await.unwrap();
    let mut change = catalog.database.write().await.unwrap();
    tokio::select! {
        set = sqlx::query(set).execute(&mut *change) => panic!("{set:?}"),
        () = until(&mut other, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = $1)", process) => {}
    }
    drop(change);
    // The dropped statement now fails.
    other.execute("COMMIT").await.unwrap();
    for _ in 0..3 {
        let found = catalog.setting("n").await.unwrap();
        assert_eq!(found.as_deref(), Some("set"));
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_keeps_no_connection() {
    let temporary = Temporary::new();
    let options = PostgresOptions {
        connections: 1,
        statement: Duration::from_secs(3),
        ..options()
    };
    let url = temporary.0.url();
    let catalog = PostgresCatalog::open(&url, &options).await.unwrap();
    let own: PgConnectOptions = url.parse().unwrap();
    let mut other = PgConnection::connect_with(&own).await.unwrap();
    let process = backend(&catalog).await;
    tokio::select! {
        slept = sqlx::query("SELECT pg_sleep(600)").execute(catalog.database.pool()) => {
            panic!("{slept:?}")
        }
        () = until(&mut other, "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $1", process) => {}
    }
    catalog.set_setting("n", "next").await.unwrap();
    assert_ne!(backend(&catalog).await, process);
}

/// Waits until a question about a process of the database has the answer yes.
async fn until(connection: &mut PgConnection, question: &'static str, process: i32) {
    loop {
        let answer = sqlx::query_scalar::<_, Option<bool>>(question).bind(process);
        if answer.fetch_one(&mut *connection).await.unwrap() == Some(true) {
            return;
        }
    }
}

/// Returns the process of the database that serves the only connection.
async fn backend(catalog: &PostgresCatalog) -> i32 {
    let backend = sqlx::query_scalar("SELECT pg_backend_pid()");
    backend.fetch_one(catalog.database.pool()).await.unwrap()
}
