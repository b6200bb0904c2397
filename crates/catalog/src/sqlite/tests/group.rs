//! Changes that share a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;

use super::Temporary;
use super::file::HASTY;
use crate::catalog::Catalog;
use crate::conformance::Place;
use crate::error::Error;
use crate::sqlite::SqliteCatalog;

async fn setting(catalog: &SqliteCatalog, name: &str) -> bool {
    catalog.setting(name).await.unwrap().is_some()
}

/// Changes that wait behind one that has its turn.
async fn waiting<T>(changes: usize, change: impl AsyncFn(usize) -> T) -> Vec<T> {
    join_all((0..changes).map(|n| change(n))).await
}

#[tokio::test]
async fn those_that_wait_are_synced_together() {
    let place = Temporary::new();
    let catalog = place.open().await;
    let commits = Arc::new(AtomicUsize::new(0));
    let counted = commits.clone();
    let mut write = catalog.database.write().await.unwrap();
    let mut handle = write.lock_handle().await.unwrap();
    handle.set_commit_hook(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        true
    });
    drop(handle);
    let set = async |n: usize| catalog.set_setting(&format!("s{n}"), "x").await.unwrap();
    let (_, committed) = tokio::join!(waiting(20, set), write.commit());
    committed.unwrap();
    assert_eq!(commits.load(Ordering::SeqCst), 1);
    for n in 0..20 {
        assert!(setting(&catalog, &format!("s{n}")).await, "{n}");
    }
    catalog.set_setting("one", "more").await.unwrap();
    assert_eq!(commits.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn one_that_is_dropped_undoes_its_own_change_only() {
    let place = Temporary::new();
    let catalog = place.open().await;
    let first = catalog.database.write().await.unwrap();
    let change = async |n: usize| {
        let mut write = catalog.database.write().await.unwrap();
        let insert = sqlx::query("INSERT INTO settings (name, value) VALUES (?, 'x')");
        let insert = insert.bind(format!("s{n}")).execute(&mut *write).await;
        insert.unwrap();
        if n.is_multiple_of(2) {
            write.commit().await.unwrap();
        }
    };
    tokio::join!(waiting(9, change), async { drop(first) });
    for n in 0..9 {
        let there = setting(&catalog, &format!("s{n}")).await;
        assert_eq!(there, n % 2 == 0, "{n}");
    }
}

/// As SQLite does it by itself when the disk is full.
#[tokio::test]
async fn a_transaction_that_is_gone_fails_all_that_were_in_it() {
    let place = Temporary::new();
    let catalog = place.open().await;
    let first = catalog.database.write().await.unwrap();
    let change = async |n: usize| {
        if n != 3 {
            return catalog.set_setting(&format!("s{n}"), "x").await;
        }
        let mut write = catalog.database.write().await?;
        sqlx::query("ROLLBACK").execute(&mut *write).await.unwrap();
        Ok(())
    };
    let (done, _) = tokio::join!(waiting(6, change), async { drop(first) });
    for (n, done) in done.into_iter().enumerate().filter(|(n, _)| *n != 3) {
        let there = setting(&catalog, &format!("s{n}")).await;
        assert_eq!(there, done.is_ok(), "{n}: {done:?}");
        assert_eq!(there, n > 3, "{n}: {done:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_at_any_moment_harms_nobody() {
    let place = Temporary::new();
    let catalog = Arc::new(place.open().await);
    for round in 0..60_u64 {
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let catalog = catalog.clone();
                let name = format!("r{round}-{n}");
                tokio::spawn(async move { catalog.set_setting(&name, "x").await })
            })
            .collect();
        tokio::time::sleep(Duration::from_micros(round * 40)).await;
        for leaving in tasks.iter().step_by(2) {
            leaving.abort();
        }
        for (n, task) in tasks.into_iter().enumerate() {
            match task.await {
                Ok(set) => {
                    set.unwrap();
                    assert!(setting(&catalog, &format!("r{round}-{n}")).await);
                }
                Err(error) => assert!(error.is_cancelled()),
            }
        }
    }
    // No transaction is left open: somebody else can write, who hardly waits.
    let other = SqliteCatalog::open(&place.file(), &HASTY).await.unwrap();
    for _ in 0..50 {
        match other.set_setting("a", "b").await {
            Err(Error::Busy) => tokio::time::sleep(Duration::from_millis(20)).await,
            set => return set.unwrap(),
        }
    }
    panic!("the catalog is still busy");
}
