//! Checks of lists of sandboxes.

use std::collections::BTreeMap;

use elevo_core::SandboxState;

use crate::catalog::*;
use crate::change::SandboxChange;
use crate::conformance::assertions::assert_refused;
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    AGENT, ALICE, BOB, NO_LIMITS, add, at, furnished, id_of, list, of_tenant, pairs, sandbox, short,
};
use crate::limits::{MAX_METADATA, MAX_METADATA_VALUE_BYTES, MAX_PAGE};
use crate::query::SandboxQuery;
use crate::records::Sandbox;

/// Three sandboxes have the same age, so that age alone does not order them.
fn aged(n: i64) -> Sandbox {
    let mut one = sandbox(ALICE, &format!("{n:03}"));
    one.created = at(n / 3);
    one
}

async fn add_aged(catalog: &impl Catalog, count: i64) {
    // Added in an order that differs from the order of the list.
    let mut all: Vec<_> = (0..count).map(aged).collect();
    all.sort_by_key(|one| one.id.bytes().rev().collect::<Vec<_>>());
    let added = catalog.add_sandboxes(&all, NO_LIMITS).await;
    added.expect("all are new");
}

/// Checks promise 8.
pub async fn pages_are_complete_and_in_order(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add_aged(&catalog, 20).await;
    add(&catalog, &sandbox(BOB, "other")).await;
    let expected: Vec<_> = (0..20).rev().map(|n| aged(n).id).collect();
    for limit in [1, 7, 10, 20, MAX_PAGE] {
        let mut seen = Vec::new();
        for page in 1..=20 / limit + 2 {
            let query = SandboxQuery {
                page,
                limit,
                ..of_tenant(ALICE)
            };
            let found = catalog.sandboxes(&query).await.expect("sandboxes");
            assert_eq!(found.total, 20);
            assert!(found.items.len() <= limit as usize);
            seen.extend(found.items.into_iter().map(|one| one.id));
        }
        assert_eq!(seen, expected, "in pages of {limit}");
    }
    let of_all_tenants = catalog.sandboxes(&SandboxQuery::default()).await;
    let of_all_tenants = of_all_tenants.expect("sandboxes");
    assert_eq!((of_all_tenants.total, of_all_tenants.items.len()), (21, 21));
    let far = SandboxQuery {
        page: u32::MAX,
        ..SandboxQuery::default()
    };
    assert!(list(&catalog, &far).await.is_empty());
}

/// A sandbox must match all filters.
pub async fn filters_are_combined(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for n in 0..16 {
        let mut one = sandbox(if n & 1 == 0 { ALICE } else { BOB }, &format!("{n:02}"));
        one.agent = (n & 2 == 0).then(|| id_of(AGENT));
        if n & 4 == 0 {
            one.state = SandboxState::Running;
        }
        one.removing = n & 8 != 0;
        one.name = Some(format!("name-{}", n % 5));
        add(&catalog, &one).await;
    }
    let all = SandboxQuery::default();
    let agent = Some(id_of(AGENT));
    let state = Some(SandboxState::Running);
    let cases = [
        (
            SandboxQuery {
                agent: agent.clone(),
                ..of_tenant(ALICE)
            },
            vec!["12", "08", "04", "00"],
        ),
        (
            SandboxQuery {
                state,
                removing: Some(true),
                ..all.clone()
            },
            vec!["11", "10", "09", "08"],
        ),
        (
            SandboxQuery {
                agent,
                state,
                removing: Some(false),
                ..of_tenant(BOB)
            },
            vec!["01"],
        ),
        (
            SandboxQuery {
                name_prefix: Some("name-3".into()),
                ..all
            },
            vec!["13", "08", "03"],
        ),
    ];
    for (query, expected) in cases {
        let page = catalog.sandboxes(&query).await.expect("sandboxes");
        assert_eq!(page.total, expected.len() as u64, "{query:?}");
        let ids: Vec<_> = page.items.iter().map(|one| short(&one.id)).collect();
        assert_eq!(ids, expected, "{query:?}");
    }
}

/// A sandbox must have all pairs of the filter, as they are after its last
/// change.
pub async fn sandboxes_are_found_by_their_metadata(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for n in 0..12 {
        let mut one = sandbox(if n < 8 { ALICE } else { BOB }, &format!("{n:02}"));
        one.metadata = pairs(&[("run", "7"), ("part", &(n % 4).to_string())]);
        add(&catalog, &one).await;
    }
    let found = async |query: SandboxQuery| {
        let page = catalog.sandboxes(&query).await.expect("sandboxes");
        let ids: Vec<_> = page.items.iter().map(|one| short(&one.id)).collect();
        (ids, page.total)
    };
    let with = |wanted: &[(&str, &str)]| SandboxQuery {
        metadata: pairs(wanted),
        ..of_tenant(ALICE)
    };
    let both = [("run", "7"), ("part", "1")];
    assert_eq!(
        found(with(&both)).await,
        (vec!["05".into(), "01".into()], 2)
    );
    let second = SandboxQuery {
        page: 2,
        limit: 3,
        ..with(&[("run", "7")])
    };
    let expected = ["04", "03", "02"].map(String::from).to_vec();
    assert_eq!(found(second).await, (expected, 8));
    let of_all = SandboxQuery {
        tenant: None,
        ..with(&both)
    };
    assert_eq!(found(of_all).await.1, 3);
    for other in [("run", "8"), ("7", "run"), ("part", "%"), ("x' OR '1", "1")] {
        assert_eq!(found(with(&[other])).await, (Vec::new(), 0), "{other:?}");
    }
    let change = SandboxChange {
        metadata: Some(pairs(&[("part", "9")])),
        ..SandboxChange::default()
    };
    let [changed, removed] = ["05", "01"].map(id_of);
    let done = catalog.change_sandbox(ALICE, &changed, &change, at(101));
    done.await.expect("a change");
    let done = catalog.remove_sandbox(ALICE, &removed, at(102));
    assert!(done.await.expect("a removal"));
    assert_eq!(found(with(&both)).await, (Vec::new(), 0));
    assert_eq!(found(with(&[("part", "9")])).await.0, ["05"]);
}

/// Checks too many pairs, and keys and values that are too long.
pub async fn rejects_metadata_out_of_bounds(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let many = |count| (0..count).map(|n| (n.to_string(), String::new()));
    let long = "x".repeat(MAX_METADATA_VALUE_BYTES + 1);
    let bad = [
        many(MAX_METADATA + 1).collect::<BTreeMap<_, _>>(),
        pairs(&[("", "value")]),
        pairs(&[("key", &long)]),
        pairs(&[("key", "\0")]),
    ];
    for metadata in bad {
        let one = Sandbox {
            metadata: metadata.clone(),
            ..sandbox(ALICE, "a")
        };
        assert_refused(catalog.add_sandbox(&one, NO_LIMITS).await);
        let query = SandboxQuery {
            metadata,
            ..of_tenant(ALICE)
        };
        assert_refused(catalog.sandboxes(&query).await);
    }
    let one = Sandbox {
        metadata: many(MAX_METADATA).collect(),
        ..sandbox(ALICE, "a")
    };
    add(&catalog, &one).await;
}

/// A prefix has no wildcards, no case folding and no SQL injection.
pub async fn a_prefix_of_a_name_is_matched_literally(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let names = [
        "%",
        "_",
        "%a",
        "_a",
        "a%b",
        "a_b",
        "aXb",
        "A_B",
        "a*b",
        "a?b",
        "[a]",
        "\\",
        "\\%",
        "'",
        "' OR 1=1 --",
        "\"",
        ";",
        "ä",
        "äb",
        "a\u{308}",
        "🦀x",
        " ",
    ];
    for (n, name) in names.into_iter().enumerate() {
        let mut one = sandbox(ALICE, &format!("{n}"));
        one.name = Some(name.into());
        add(&catalog, &one).await;
    }
    add(&catalog, &sandbox(ALICE, "without")).await;
    let prefixes = names.into_iter().chain(["a", "🦀", "nothing", ""]);
    for prefix in prefixes {
        let query = SandboxQuery {
            name_prefix: Some(prefix.into()),
            ..of_tenant(ALICE)
        };
        let page = catalog.sandboxes(&query).await.expect("sandboxes");
        let mut found: Vec<_> = page.items.into_iter().filter_map(|one| one.name).collect();
        found.sort();
        let mut expected = names.to_vec();
        expected.retain(|name| name.starts_with(prefix));
        expected.sort();
        assert_eq!(found, expected, "{prefix:?}");
        let without = u64::from(prefix.is_empty());
        assert_eq!(page.total, expected.len() as u64 + without, "{prefix:?}");
    }
}

/// A sandbox that exists during the whole walk is returned once.
pub async fn a_walk_returns_each_sandbox_once_during_changes(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add_aged(&catalog, 30).await;
    let mut query = SandboxQuery {
        limit: 4,
        ..of_tenant(ALICE)
    };
    let mut seen = Vec::new();
    for round in 0.. {
        let page = catalog.sandboxes(&query).await.expect("sandboxes");
        let Some(last) = page.items.last() else { break };
        query.after = Some(last.position());
        // A sandbox is added at the front, and one that was seen is deleted: the
        // last of the page, or the first.
        let gone = page.items[if round % 2 == 0 {
            page.items.len() - 1
        } else {
            0
        }]
        .clone();
        seen.extend(page.items.into_iter().map(|one| one.id));
        add(&catalog, &aged(100 + round)).await;
        catalog
            .remove_sandbox(ALICE, &gone.id, at(900))
            .await
            .expect("remove");
    }
    let expected: Vec<_> = (0..30).rev().map(|n| aged(n).id).collect();
    assert_eq!(seen, expected);
}

/// Numbered pages shift when a sandbox is added, so a walk over them repeats
/// sandboxes but skips none.
pub async fn numbered_pages_skip_no_sandbox_during_additions(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add_aged(&catalog, 30).await;
    let mut seen = Vec::new();
    for page in 1..=30 {
        let query = SandboxQuery {
            page,
            limit: 4,
            ..of_tenant(ALICE)
        };
        seen.extend(list(&catalog, &query).await);
        add(&catalog, &aged(100 + i64::from(page))).await;
    }
    for n in 0..30 {
        assert!(seen.contains(&short(&aged(n).id)), "{n} was skipped");
    }
}

/// Checks an invalid page number, page length and prefix of a name.
pub async fn rejects_an_invalid_list_query(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for (page, limit) in [(0, 10), (1, 0), (1, MAX_PAGE + 1)] {
        let query = SandboxQuery {
            page,
            limit,
            ..SandboxQuery::default()
        };
        assert_refused(catalog.sandboxes(&query).await);
    }
    let query = SandboxQuery {
        name_prefix: Some("a\0".into()),
        ..SandboxQuery::default()
    };
    assert_refused(catalog.sandboxes(&query).await);
}
