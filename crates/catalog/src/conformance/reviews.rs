//! Checks of reviews.

use elevo_core::Timestamp;
use futures::future::join_all;
use serde_json::json;
use strum::VariantArray;

use crate::catalog::*;
use crate::conformance::assertions::{
    assert_changed, assert_exists, assert_not_found, assert_refused,
};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    AGENT, ALICE, BOB, add_project, at, directory, first, furnished, get_review, id_of, land,
    landing, open, path, project, review, short, snapshot, step,
};
use crate::error::{Error, Kind};
use crate::limits::{MAX_DETAIL_BYTES, MAX_PAGE};
use crate::records::{
    Project, Review, ReviewChange, ReviewQuery, ReviewState, ReviewStep, Sides, Step,
};

async fn furnished_with_empty_project<P: Backend>(backend: &P) -> (P::Catalog, Project) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    (catalog, one)
}

/// The review is read back with all its fields, and no other tenant finds it.
pub async fn a_review_is_read_back_as_opened(backend: &impl Backend) {
    let (catalog, one) = furnished_with_empty_project(backend).await;
    let full = Review {
        agent: Some(id_of(AGENT)),
        kind: "protected".into(),
        sides: Sides {
            base: Some(directory(3)),
            ours: None,
            theirs: None,
            base_snapshot: snapshot(u64::MAX),
            ours_snapshot: snapshot(5),
            theirs_snapshot: snapshot(6),
        },
        detail: json!({ "hunks": [1, "\u{0}ä"] }),
        created: Timestamp::new(-1, 999_999_000).expect("a time"),
        expires: Some(at(5)),
        reopened: u32::MAX,
        ..review(&one, "full", Some("gone"), "a/b")
    };
    let bare = review(&one, "bare", None, "");
    open(&catalog, &one, vec![full.clone(), bare.clone()]).await;
    for opened in [&full, &bare] {
        assert_eq!(get_review(&catalog, opened).await, *opened);
        let elsewhere = catalog.review(BOB, &opened.id).await;
        assert_eq!(elsewhere.expect("review"), None);
    }
}

/// Checks each pair of states, and the fields that record the end of a review.
pub async fn a_review_changes_only_as_allowed(backend: &impl Backend) {
    let (catalog, one) = furnished_with_empty_project(backend).await;
    for &from in ReviewState::VARIANTS {
        for &to in ReviewState::VARIANTS {
            let id = format!("{from}-{to}");
            let opened = review(&one, &id, None, "a");
            open(&catalog, &one, vec![opened.clone()]).await;
            if from != ReviewState::Open {
                let end = ReviewChange::new(ReviewState::Open, from);
                let ended = catalog
                    .change_review(ALICE, &opened.id, &end, at(301))
                    .await;
                assert_eq!(ended.expect("ended").state, from);
            }
            let before = get_review(&catalog, &opened).await;
            let change = ReviewChange {
                by: Some("key-1".into()),
                resolution: Some(json!("ours")),
                successor: Some(id_of("next")),
                ..ReviewChange::new(from, to)
            };
            let changed = catalog
                .change_review(ALICE, &opened.id, &change, at(302))
                .await;
            let kept = get_review(&catalog, &opened).await;
            if !from.can_become(to) {
                assert_refused(changed);
                assert_eq!(kept, before);
                continue;
            }
            let opens = to == ReviewState::Open;
            let expected = Review {
                state: to,
                closed: (!opens).then(|| at(302)),
                closed_by: (!opens).then(|| "key-1".into()),
                resolution: (!opens).then(|| json!("ours")),
                successor: (!opens).then(|| id_of("next")),
                reopened: opens.into(),
                ..opened
            };
            assert_eq!(changed.expect("changed"), expected);
            assert_eq!(kept, expected);
        }
    }
}

/// Unexpected states and values out of bounds are rejected.
pub async fn a_reopened_review_can_have_other_sides(backend: &impl Backend) {
    let (catalog, one) = furnished_with_empty_project(backend).await;
    let opened = review(&one, "r", None, "a");
    open(&catalog, &one, vec![opened.clone()]).await;
    let sides = Sides {
        ours: None,
        ours_snapshot: snapshot(8),
        ..opened.sides.clone()
    };
    let again = ReviewChange {
        sides: Some(sides.clone()),
        detail: Some(json!([1])),
        expires: Some(Some(Timestamp::new(400, 1_999).expect("a time"))),
        ..ReviewChange::new(ReviewState::Open, ReviewState::Open)
    };
    let changed = catalog
        .change_review(ALICE, &id_of("r"), &again, at(301))
        .await;
    let expected = Review {
        sides,
        detail: json!([1]),
        expires: Some(Timestamp::new(400, 1_000).expect("a time")),
        reopened: 1,
        ..opened.clone()
    };
    assert_eq!(changed.expect("changed"), expected);
    let reject = ReviewChange::new(ReviewState::Rejected, ReviewState::Open);
    let changed = catalog
        .change_review(ALICE, &id_of("r"), &reject, at(301))
        .await;
    assert_changed(changed, Kind::Review);
    let unknown = catalog
        .change_review(ALICE, &id_of("x"), &again, at(301))
        .await;
    assert_not_found(unknown, Kind::Review);
    let long = ReviewChange {
        resolution: Some("x".repeat(MAX_DETAIL_BYTES).into()),
        ..ReviewChange::new(ReviewState::Open, ReviewState::Resolved)
    };
    let unnamed = ReviewChange {
        by: Some(String::new()),
        ..ReviewChange::new(ReviewState::Open, ReviewState::Resolved)
    };
    for bad in [long, unnamed] {
        assert_refused(
            catalog
                .change_review(ALICE, &id_of("r"), &bad, at(301))
                .await,
        );
    }
    assert_eq!(get_review(&catalog, &opened).await, expected);
}

/// Checks promise 5 through two handles.
pub async fn one_of_several_concurrent_decisions_wins(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    let one = project(ALICE, "p");
    add_project(&handles[0], &one).await;
    let opened = review(&one, "r", None, "a");
    open(&handles[0], &one, vec![opened.clone()]).await;
    let ends = [ReviewState::Resolved, ReviewState::Rejected];
    let tries = (0..16).map(|n| {
        let change = ReviewChange {
            by: Some(n.to_string()),
            ..ReviewChange::new(ReviewState::Open, ends[n / 2 % 2])
        };
        let catalog = &handles[n % 2];
        async move {
            catalog
                .change_review(ALICE, &id_of("r"), &change, at(301))
                .await
        }
    });
    let mut won = Vec::new();
    for result in join_all(tries).await {
        match result {
            Ok(review) => won.push(review),
            Err(Error::Changed { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(won, [get_review(&handles[1], &opened).await]);
}

/// Checks promise 15 for every way to open a second review.
pub async fn a_workspace_has_one_open_review_for_a_path(backend: &impl Backend) {
    let (catalog, one) = furnished_with_empty_project(backend).await;
    let of = |id, workspace, path| review(&one, id, workspace, path);
    open(&catalog, &one, vec![of("a", Some("w"), "x")]).await;
    let others = vec![
        of("b", Some("w"), "y"),
        of("c", Some("v"), "x"),
        of("d", None, "x"),
        of("e", None, "x"),
    ];
    open(&catalog, &one, others).await;
    let with = |reviews, opens| {
        let held = Step {
            reviews,
            opens,
            ..step(first())
        };
        landing(&one, first(), vec![held])
    };
    let same_id = with(vec![], vec![of("a", Some("u"), "z")]);
    let second = with(vec![], vec![of("f", Some("w"), "x")]);
    let twice = vec![of("f", Some("u"), "z"), of("g", Some("u"), "z")];
    for taken in [same_id, second, with(vec![], twice)] {
        assert_exists(catalog.land(&taken).await, Kind::Review);
    }
    let end = ReviewStep {
        id: id_of("a"),
        change: ReviewChange::new(ReviewState::Open, ReviewState::Rejected),
    };
    let replaced = with(vec![end], vec![of("f", Some("w"), "x")]);
    catalog
        .land(&replaced)
        .await
        .expect("the path has no open review");
    let back = ReviewChange::new(ReviewState::Rejected, ReviewState::Open);
    let back = catalog
        .change_review(ALICE, &id_of("a"), &back, at(301))
        .await;
    assert_exists(back, Kind::Review);
    assert_eq!(
        catalog.review(ALICE, &id_of("g")).await.expect("review"),
        None
    );
}

/// Reviews are in the order of opening time and id, and match all filters.
pub async fn reviews_are_listed_oldest_first(backend: &impl Backend) {
    let (catalog, one) = furnished_with_empty_project(backend).await;
    let other = project(ALICE, "q");
    add_project(&catalog, &other).await;
    let of_bob = project(BOB, "of-bob");
    add_project(&catalog, &of_bob).await;
    open(&catalog, &of_bob, vec![review(&of_bob, "x", None, "a")]).await;
    for n in 0..8 {
        let of = if n & 1 == 0 { &one } else { &other };
        let workspace = if n & 2 == 0 { "v" } else { "w" };
        let mut opened = review(of, &n.to_string(), Some(workspace), &format!("f{n}"));
        opened.created = at(n / 3);
        open(&catalog, of, vec![opened]).await;
        if n & 4 != 0 {
            let end = ReviewChange::new(ReviewState::Open, ReviewState::Expired);
            let ended = catalog
                .change_review(ALICE, &id_of(&n.to_string()), &end, at(301))
                .await;
            ended.expect("ended");
        }
    }
    let all = ReviewQuery::of(ALICE);
    let of_p = ReviewQuery {
        project: Some(id_of("p")),
        ..all.clone()
    };
    let of_w = ReviewQuery {
        workspace: Some(id_of("w")),
        ..all.clone()
    };
    let state = |query: &ReviewQuery, state| ReviewQuery {
        state: Some(state),
        ..query.clone()
    };
    let both = ReviewQuery {
        workspace: Some(id_of("w")),
        ..of_p.clone()
    };
    for (query, expected) in [
        (state(&all, ReviewState::Open), "0123"),
        (state(&all, ReviewState::Rejected), ""),
        (state(&of_p, ReviewState::Open), "02"),
        (state(&of_p, ReviewState::Expired), "46"),
        (state(&of_w, ReviewState::Open), "23"),
        (state(&both, ReviewState::Open), "2"),
        (both, "26"),
        (of_w, "2367"),
        (of_p, "0246"),
        (all, "01234567"),
    ] {
        for limit in [1, 3, MAX_PAGE] {
            let mut query = ReviewQuery {
                limit,
                ..query.clone()
            };
            let mut seen = String::new();
            loop {
                let page = catalog.reviews(&query).await.expect("reviews");
                assert_eq!(page.total, expected.len() as u64, "{query:?}");
                let Some(last) = page.items.last() else { break };
                query.after = Some(last.position());
                seen.extend(page.items.iter().map(|it| short(&it.id)));
            }
            assert_eq!(seen, expected, "{query:?}");
        }
    }
    let none = ReviewQuery {
        limit: 0,
        ..ReviewQuery::of(ALICE)
    };
    assert_refused(catalog.reviews(&none).await);
}

/// Checks the list of a workspace's open reviews, which is ordered by path, and
/// the list of expired reviews.
pub async fn open_reviews_are_found(backend: &impl Backend) {
    let (catalog, one) = furnished_with_empty_project(backend).await;
    let names = ["a", "a/b", "a-b", "c", "d"];
    for (n, name) in (0..).zip(names) {
        let mut opened = review(&one, &name.replace('/', ""), Some("w"), name);
        opened.expires = (n > 0).then(|| at(500 - n));
        open(&catalog, &one, vec![opened]).await;
    }
    open(&catalog, &one, vec![review(&one, "x", Some("v"), "a")]).await;
    let end = ReviewChange::new(ReviewState::Open, ReviewState::Resolved);
    catalog
        .change_review(ALICE, &id_of("d"), &end, at(301))
        .await
        .expect("end");
    for limit in [1, 3, MAX_PAGE] {
        let mut seen: Vec<Review> = Vec::new();
        loop {
            let after = seen.last().map(|it| &it.path);
            let page = catalog
                .open_reviews_of(ALICE, &id_of("w"), after, limit)
                .await;
            let page = page.expect("reviews");
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        let seen: Vec<_> = seen.into_iter().map(|it| it.path).collect();
        assert_eq!(seen, ["a", "a/b", "a-b", "c"].map(path));
    }
    let expired = async |now, limit| {
        let found = catalog.expired_reviews_of_all_tenants(at(now), limit).await;
        let found = found.expect("reviews").into_iter();
        found.map(|it| short(&it.id)).collect::<Vec<_>>()
    };
    assert!(expired(496, 10).await.is_empty());
    assert_eq!(expired(498, 10).await, ["c", "a-b"]);
    assert_eq!(expired(999, 1).await, ["c"]);
    assert_eq!(expired(999, 10).await, ["c", "a-b", "ab"]);
    for limit in [0, u32::MAX] {
        assert_refused(catalog.expired_reviews_of_all_tenants(at(1), limit).await);
        assert_refused(
            catalog
                .open_reviews_of(ALICE, &id_of("w"), None, limit)
                .await,
        );
    }
    // A landing that resolves one of the reviews closes it.
    let resolved = Step {
        reviews: vec![ReviewStep {
            id: id_of("c"),
            change: end,
        }],
        ..step(snapshot(1))
    };
    land(&catalog, &one, vec![resolved]).await;
    assert_eq!(expired(999, 10).await, ["a-b", "ab"]);
}
