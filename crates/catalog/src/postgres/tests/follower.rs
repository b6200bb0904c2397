//! The choice of a host, and readers that wait for events.

use std::time::Duration;

use elevo_testkit::postgres::{standby_url, upstream};
use elevo_testkit::wire::{Fault, Upstream, Wire};
use sqlx::postgres::PgConnectOptions;
use tokio::time::sleep;

use super::Temporary;
use crate::catalog::{Events, Settings};
use crate::conformance::samples::furnished;
use crate::conformance::{Backend, note};
use crate::error::Error;
use crate::postgres::{PostgresCatalog, PostgresOptions};

/// Longer than any wait that succeeds.
const LONG: Duration = Duration::from_secs(60);

/// Returns the URL of a database with these hosts.
fn url_of(temporary: &Temporary, hosts: &[String]) -> String {
    let own: PgConnectOptions = temporary.0.url().parse().unwrap();
    let (user, hosts) = (own.get_username().to_owned(), hosts.join(","));
    format!("postgres://{user}@{hosts}/{}", temporary.0.name())
}

fn standby() -> String {
    match upstream(&standby_url()) {
        Upstream::Tcp(address) => address.to_string(),
        Upstream::Unix(path) => panic!("{} is not a TCP address", path.display()),
    }
}

#[tokio::test]
async fn the_host_that_can_be_written_is_used() {
    let temporary = Temporary::new();
    let wire = temporary.0.wire();
    let hosts = [standby(), wire.address().to_string()];
    let catalog = Temporary::open_at(&url_of(&temporary, &hosts)).await;
    catalog.set_setting("one", "two").await.unwrap();
    assert!(wire.trips().connections > 0);
}

#[tokio::test]
async fn a_database_without_a_host_that_can_be_written_is_not_opened() {
    let temporary = Temporary::new();
    let url = url_of(&temporary, &[standby()]);
    let options = PostgresOptions::default();
    loop {
        let Err(Error::Failed(cause)) = PostgresCatalog::open(&url, &options).await else {
            panic!("it was opened");
        };
        let cause = cause.to_string();
        if cause.contains("is read-only") {
            break;
        }
        // The standby applies the creation of the database later.
        assert!(cause.contains("does not exist"), "{cause}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Both hosts are proxies of the same primary, so that one can be lost.
#[tokio::test]
async fn another_host_is_used_when_one_is_lost() {
    let temporary = Temporary::new();
    let wires = [temporary.0.wire(), temporary.0.wire()];
    let hosts = wires.each_ref().map(|wire| wire.address().to_string());
    let catalog = Temporary::open_at(&url_of(&temporary, &hosts)).await;
    for (n, wire) in wires.iter().chain(&wires).enumerate() {
        wire.fence();
        // The first calls can meet a connection to the lost host.
        let value = n.to_string();
        while let Err(error) = catalog.set_setting("n", &value).await {
            assert!(matches!(error, Error::Busy | Error::Failed(_)), "{error:?}");
        }
        assert_eq!(catalog.setting("n").await.unwrap(), Some(value));
        wire.heal();
    }
}

#[tokio::test]
async fn a_reader_hears_of_an_event_of_another_process() {
    let temporary = Temporary::new();
    let (writer, reader) = (furnished(&temporary).await, temporary.open().await);
    for n in 0..3 {
        let known = reader.last_event().await.unwrap();
        let waiting = reader.wait_for_event(known, LONG);
        let event = note("one", n);
        let (newest, added) = tokio::join!(waiting, writer.add_event(&event));
        added.unwrap();
        assert!(newest.unwrap() > known);
    }
}

/// All connections of the reader hang, so it has to make new ones.
#[tokio::test]
async fn a_reader_whose_connections_hang_hears_of_later_events() {
    let temporary = Temporary::new();
    let writer = furnished(&temporary).await;
    let wire: Wire = temporary.0.wire();
    let reader = Temporary::open_at(&temporary.0.url_through(&wire)).await;
    let known = reader.last_event().await.unwrap();
    wire.set(Fault::Hang);
    writer.add_event(&note("one", 1)).await.unwrap();
    wire.heal();
    let newest = reader.wait_for_event(known, LONG).await.unwrap();
    assert_eq!(newest, known + 1);
}

#[tokio::test]
async fn a_wait_for_an_event_ends_in_time() {
    let temporary = Temporary::new();
    let catalog = furnished(&temporary).await;
    let last = catalog.last_event().await.unwrap();
    let newest = catalog
        .wait_for_event(last, Duration::from_millis(20))
        .await;
    assert!(newest.unwrap() <= last);
}
