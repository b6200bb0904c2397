//! The examples of the design documents.

use elevo_merge::{Drivers, Json, Merged, Versions};

use crate::support::{alike, clean, conflict};

#[test]
fn each_side_changed_another_field() {
    let merged = alike(
        &Json,
        r#"{"count": 1, "name": "old"}"#,
        r#"{"count": 2, "name": "old"}"#,
        r#"{"count": 1, "name": "new"}"#,
    );
    assert_eq!(merged, r#"{"count": 2, "name": "new"}"#);
}

#[test]
fn both_changed_the_same_field() {
    let (hunks, suggestion) = conflict(
        &Json,
        r#"{"count": 1}"#,
        r#"{"count": 2}"#,
        r#"{"count": 99}"#,
    );
    assert_eq!(hunks, ["/count: 1 | 2 | 99"]);
    assert_eq!(suggestion, r#"{"count": 99}"#);
}

#[test]
fn a_conflicting_field_does_not_block_the_others() {
    let (hunks, suggestion) = conflict(
        &Json,
        r#"{"count": 1, "name": "old"}"#,
        r#"{"count": 2, "name": "ours"}"#,
        r#"{"count": 99, "name": "old"}"#,
    );
    assert_eq!(hunks, ["/count: 1 | 2 | 99"]);
    assert_eq!(suggestion, r#"{"count": 99, "name": "ours"}"#);
}

#[test]
fn one_side_did_not_change_the_file() {
    let (base, changed) = (r#"{"a": 1}"#, r#"{ "a":2 }"#);
    assert_eq!(clean(&Json, base, base, changed), changed);
    assert_eq!(clean(&Json, base, changed, base), changed);
}

#[test]
fn both_sides_made_the_same_change() {
    assert_eq!(clean(&Json, "{}", r#"{"a":1}"#, r#"{"a":1}"#), r#"{"a":1}"#);
    let merged = alike(
        &Json,
        r#"{"a": 1, "b": 1, "c": 1}"#,
        r#"{"a": 2, "b": 2, "c": 1}"#,
        r#"{"a": 2, "b": 1, "c": 2}"#,
    );
    assert_eq!(merged, r#"{"a": 2, "b": 2, "c": 2}"#);
}

#[test]
fn each_side_created_the_file() {
    let made = |ours: &[u8], theirs: &[u8]| {
        let drivers = Drivers::default().with(Json);
        drivers.named("json").unwrap().merge(&Versions {
            base: None,
            ours,
            theirs,
        })
    };
    assert_eq!(
        made(br#"{"a": 1}"#, br#"{"b": 2}"#),
        Merged::Clean(br#"{"a": 1, "b": 2}"#.to_vec())
    );
    assert_eq!(
        crate::support::brief(made(b"[1]", b"[2]")),
        (vec![": - | [1] | [2]".to_owned()], "[2]".to_owned())
    );
}
