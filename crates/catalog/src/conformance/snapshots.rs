//! Checks of the snapshots of clients.

use elevo_core::TenantId;
use elevo_objects::SnapshotId;

use crate::catalog::*;
use crate::conformance::assertions::{assert_exists, assert_not_found, assert_refused};
use crate::conformance::backend::Backend;
use crate::conformance::roots::all_roots;
use crate::conformance::samples::{AGENT, ALICE, BOB, KEY, at, furnished, id_of, snapshot};
use crate::error::Kind;
use crate::limits::MAX_PAGE;
use crate::records::{ClientSnapshot, SnapshotQuery};

pub(crate) fn taken(tenant: TenantId, number: u64) -> ClientSnapshot {
    ClientSnapshot {
        tenant,
        id: snapshot(number),
        tree: None,
        workspace: None,
        key: id_of(KEY),
        agent: None,
        message: String::new(),
        name: None,
        created: at(number as i64),
    }
}

fn named(tenant: TenantId, number: u64, name: &str) -> ClientSnapshot {
    ClientSnapshot {
        name: Some(name.into()),
        ..taken(tenant, number)
    }
}

/// The record has all its fields, only its tenant finds it, and a second record of
/// the same snapshot changes nothing but the name.
pub async fn a_snapshot_is_read_back_as_recorded(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let full = ClientSnapshot {
        tree: Some(snapshot(77).0),
        workspace: Some(id_of("w")),
        agent: Some(id_of(AGENT)),
        message: "why\nnot".into(),
        ..named(ALICE, 1, "good")
    };
    let recorded = catalog.record_snapshot(&full).await.expect("recorded");
    assert_eq!(recorded, full);
    for other in [taken(ALICE, 1), named(ALICE, 1, "good")] {
        let again = catalog.record_snapshot(&other).await.expect("recorded");
        assert_eq!(again, full);
    }
    let found = catalog.client_snapshot(ALICE, full.id).await;
    assert_eq!(found.expect("found").as_ref(), Some(&full));
    let found = catalog.snapshot_by_name(ALICE, "good").await;
    assert_eq!(found.expect("found").as_ref(), Some(&full));
    for (tenant, name) in [(ALICE, "Good"), (ALICE, ""), (BOB, "good")] {
        let found = catalog.snapshot_by_name(tenant, name).await;
        assert_eq!(found.expect("none"), None);
    }
    let found = catalog.client_snapshot(BOB, full.id).await;
    assert_eq!(found.expect("none"), None);
    let unknown = TenantId::new([3; 16]);
    let refused = catalog.record_snapshot(&taken(unknown, 1)).await;
    assert_not_found(refused, Kind::Owner);
    let refused = catalog.record_snapshot(&named(ALICE, 2, "")).await;
    assert_refused(refused);
    catalog.begin_erasure(BOB, at(5)).await.expect("erasure");
    let refused = catalog.record_snapshot(&taken(BOB, 1)).await;
    assert_not_found(refused, Kind::Owner);
}

/// A name belongs to one snapshot of a tenant, moves when it is removed, and keeps
/// its snapshot and its record.
pub async fn a_name_keeps_one_snapshot(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for record in [taken(ALICE, 1), taken(ALICE, 2), named(BOB, 3, "good")] {
        catalog.record_snapshot(&record).await.expect("recorded");
    }
    let good = catalog.record_snapshot(&named(ALICE, 1, "good")).await;
    assert_eq!(good.expect("named"), named(ALICE, 1, "good"));
    for number in [2, 4] {
        let taken_name = catalog.record_snapshot(&named(ALICE, number, "good")).await;
        assert_exists(taken_name, Kind::Snapshot);
    }
    let roots = all_roots(&catalog, ALICE, 1).await;
    assert_eq!(roots.into_iter().collect::<Vec<_>>(), [snapshot(1)]);
    let unnamed = catalog.unnamed_snapshots(ALICE, None, 10).await;
    assert_eq!(unnamed.expect("unnamed"), [snapshot(2)]);
    for (number, is_forgotten) in [(1, false), (2, true), (2, false), (9, false)] {
        let forgotten = catalog.forget_snapshot(ALICE, snapshot(number)).await;
        assert_eq!(forgotten.expect("forgotten"), is_forgotten, "{number}");
    }
    let removed = catalog.remove_snapshot_name(ALICE, snapshot(1)).await;
    assert_eq!(removed.expect("removed"), Some(taken(ALICE, 1)));
    let unknown = catalog.remove_snapshot_name(ALICE, snapshot(3)).await;
    assert_eq!(unknown.expect("none"), None);
    assert!(all_roots(&catalog, ALICE, 10).await.is_empty());
    let moved = catalog.record_snapshot(&named(ALICE, 2, "good")).await;
    moved.expect("the name is free");
}

/// Every filter and every length of page shows the snapshots in the same order.
pub async fn snapshots_are_listed_newest_first(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for number in 1..=6 {
        let record = ClientSnapshot {
            workspace: (number % 2 == 0).then(|| id_of("w")),
            agent: (number > 3).then(|| id_of(AGENT)),
            name: (number != 5).then(|| format!("n%{number}")),
            // Some are of the same moment.
            created: at(number as i64 / 2),
            ..taken(ALICE, number)
        };
        catalog.record_snapshot(&record).await.expect("recorded");
    }
    let record = taken(BOB, 7);
    catalog.record_snapshot(&record).await.expect("recorded");
    let all = SnapshotQuery::of(ALICE);
    let list = async |query: &SnapshotQuery| -> Vec<SnapshotId> {
        let found = catalog.client_snapshots(query).await.expect("snapshots");
        found.iter().map(|one| one.id).collect()
    };
    let whole = catalog.client_snapshots(&all).await.expect("snapshots");
    let mut expected = whole.clone();
    expected.sort_by_key(|one| std::cmp::Reverse((one.created, *one.id.0.as_bytes())));
    assert_eq!(whole, expected);
    assert_eq!(whole.len(), 6);
    for limit in [1, 2, 4] {
        let mut query = SnapshotQuery {
            limit,
            ..all.clone()
        };
        let mut seen = Vec::new();
        loop {
            let page = catalog.client_snapshots(&query).await.expect("snapshots");
            let Some(last) = page.last() else { break };
            query.after = Some((last.created, last.id));
            seen.extend(page);
        }
        assert_eq!(seen, whole, "{limit}");
    }
    let of_agent = SnapshotQuery {
        agent: Some(id_of(AGENT)),
        ..all.clone()
    };
    assert_eq!(list(&of_agent).await.len(), 3);
    let of_both = SnapshotQuery {
        workspace: Some(id_of("w")),
        ..of_agent
    };
    assert_eq!(list(&of_both).await.len(), 2);
    for (prefix, count) in [("n%", 5), ("n", 5), ("n%6", 1), ("%", 0), ("N", 0), ("", 6)] {
        let query = SnapshotQuery {
            name_prefix: Some(prefix.into()),
            ..all.clone()
        };
        assert_eq!(list(&query).await.len(), count, "{prefix}");
    }
    for limit in [0, MAX_PAGE + 1] {
        let query = SnapshotQuery {
            limit,
            ..all.clone()
        };
        assert_refused(catalog.client_snapshots(&query).await);
        assert_refused(catalog.unnamed_snapshots(ALICE, None, limit).await);
    }
}
