//! The numbers of events in a copy.

use super::databases::{File, Server, copy};
use crate::catalog::{Catalog, Events};
use crate::conformance::samples::{at, furnished};
use crate::conformance::{Backend, add_events, note};

/// Deletes all events.
async fn forget(catalog: &impl Catalog) {
    assert!(catalog.forget_events(at(100_000)).await.unwrap() > 0);
}

#[tokio::test]
async fn no_number_of_a_deleted_event_is_used_again() {
    let (first, server, second) = (File::new(), Server::new(), File::new());
    let sqlite = furnished(&first).await;
    let notes = [note("a", 1), note("b", 2), note("c", 3)];
    assert_eq!(add_events(&sqlite, &notes).await, [1, 2, 3]);
    forget(&sqlite).await;

    let postgres = server.open().await;
    copy(&sqlite, &postgres).await.unwrap();
    assert_eq!(postgres.last_event().await.unwrap(), 3);
    assert_eq!(add_events(&postgres, &notes[..1]).await, [4]);
    forget(&postgres).await;

    let back = second.open().await;
    copy(&postgres, &back).await.unwrap();
    assert_eq!(back.last_event().await.unwrap(), 4);
    assert_eq!(add_events(&back, &notes[..1]).await, [5]);
}

#[tokio::test]
async fn events_without_a_number_get_one_before_the_copy() {
    let (file, server) = (File::new(), Server::new());
    let postgres = furnished(&server).await;
    for n in 1..=3 {
        postgres.add_event(&note("a", n)).await.unwrap();
    }
    let sqlite = file.open().await;
    copy(&postgres, &sqlite).await.unwrap();
    assert_eq!(sqlite.last_event().await.unwrap(), 3);
    assert_eq!(file.dump().await["events"].len(), 3);
    assert_eq!(add_events(&sqlite, &[note("b", 4)]).await, [4]);
}
