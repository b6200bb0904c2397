//! JSON: the values of a merge.

use elevo_merge::{Driver, Json, Merged};

use crate::support::{alike, conflict, merge};

#[test]
fn claims_files_by_their_names() {
    for (name, claimed) in [
        ("package.json", true),
        ("tsconfig.JSON", true),
        ("a.jsonc", true),
        (".json", true),
        ("tasks.crdt.json", false),
        ("json", false),
        ("a.jsonl", false),
        ("a.json.bak", false),
    ] {
        assert_eq!(Json.claims(name.as_bytes()), claimed, "{name}");
    }
}

#[test]
fn objects_merge_key_by_key() {
    for (base, ours, theirs, merged) in [
        // Nested.
        (
            r#"{"a": {"x": 1, "y": {"z": 1}}}"#,
            r#"{"a": {"x": 2, "y": {"z": 1}}}"#,
            r#"{"a": {"x": 1, "y": {"z": 2}}}"#,
            r#"{"a": {"x": 2, "y": {"z": 2}}}"#,
        ),
        // Both add, at the same place and at different places.
        (
            r#"{"m": 0}"#,
            r#"{"m": 0, "b": 1}"#,
            r#"{"m": 0, "a": 2}"#,
            r#"{"m": 0, "a": 2, "b": 1}"#,
        ),
        (
            r#"{"m": 0}"#,
            r#"{"b": 1, "m": 0}"#,
            r#"{"m": 0, "a": 2}"#,
            r#"{"b": 1, "m": 0, "a": 2}"#,
        ),
        // Both add the same key, with equal values or with objects that merge.
        (
            "{}",
            r#"{"k": [1], "a": 1}"#,
            r#"{"k": [1], "b": 2}"#,
            r#"{"k": [1], "a": 1, "b": 2}"#,
        ),
        (
            r#"{"m": 0}"#,
            r#"{"m": 0, "k": {"a": 1}}"#,
            r#"{"m": 0, "k": {"b": 2}}"#,
            r#"{"m": 0, "k": {"a": 1, "b": 2}}"#,
        ),
        // Removed on one side, changed on the other.
        (
            r#"{"a": 1, "b": 2, "c": 3}"#,
            r#"{"b": 2, "c": 3}"#,
            r#"{"a": 1, "b": 2}"#,
            r#"{"b": 2}"#,
        ),
        (
            r#"{"a": 1, "b": 2}"#,
            r#"{"a": 1}"#,
            r#"{"a": 9, "b": 2}"#,
            r#"{"a": 9}"#,
        ),
        // Moved on one side, changed on the other.
        (
            r#"{"a": 1, "b": 2, "c": 3}"#,
            r#"{"c": 3, "a": 1, "b": 2}"#,
            r#"{"a": 1, "b": 9, "c": 3}"#,
            r#"{"c": 3, "a": 1, "b": 9}"#,
        ),
        // Another type.
        (
            r#"{"a": 1, "b": 1}"#,
            r#"{"a": {"x": [null, true]}, "b": 1}"#,
            r#"{"a": 1, "b": "one"}"#,
            r#"{"a": {"x": [null, true]}, "b": "one"}"#,
        ),
    ] {
        assert_eq!(alike(&Json, base, ours, theirs), merged);
    }
}

#[test]
fn a_value_that_both_sides_changed_is_a_conflict() {
    for (base, ours, theirs, hunk, suggestion) in [
        (
            r#"{"a": {"b/c": 1}}"#,
            r#"{"a": {"b/c": 2}}"#,
            r#"{"a": {"b/c": 3}}"#,
            "/a/b~1c: 1 | 2 | 3",
            r#"{"a": {"b/c": 3}}"#,
        ),
        (
            "{}",
            r#"{"k": 1}"#,
            r#"{"k": {"x": 1}}"#,
            r#"/k: - | 1 | {"x": 1}"#,
            r#"{"k": {"x": 1}}"#,
        ),
        (
            r#"{"a": 1, "b": 1}"#,
            r#"{"b": 1}"#,
            r#"{"a": 2, "b": 1}"#,
            "/a: 1 | - | 2",
            r#"{"a": 2, "b": 1}"#,
        ),
        (
            r#"{"a": 1, "b": 1}"#,
            r#"{"a": 2, "b": 1}"#,
            r#"{"b": 1}"#,
            "/a: 1 | 2 | -",
            r#"{"b": 1}"#,
        ),
        (
            r#"{"~": [1, 2]}"#,
            r#"{"~": [1, 2, 3]}"#,
            r#"{"~": [1, 2, 4]}"#,
            "/~0: [1, 2] | [1, 2, 3] | [1, 2, 4]",
            r#"{"~": [1, 2, 4]}"#,
        ),
        ("1", "2", "3", ": 1 | 2 | 3", "3"),
        (
            r#"{"a": 1}"#,
            r#"{"a": {"x": 1}}"#,
            r#"{"a": {"y": 1}}"#,
            r#"/a: 1 | {"x": 1} | {"y": 1}"#,
            r#"{"a": {"y": 1}}"#,
        ),
    ] {
        let expected = (vec![hunk.to_owned()], suggestion.to_owned());
        assert_eq!(conflict(&Json, base, ours, theirs), expected);
        assert!(matches!(
            merge(&Json, base, theirs, ours),
            Merged::Conflict(_)
        ));
    }
}

#[test]
fn conflicts_come_in_the_order_of_the_file() {
    let (hunks, _) = conflict(
        &Json,
        r#"{"z": 1, "m": {"q": 1}, "a": 1}"#,
        r#"{"z": 2, "m": {"q": 2}, "a": 2}"#,
        r#"{"z": 3, "m": {"q": 3}}"#,
    );
    assert_eq!(hunks, ["/z: 1 | 2 | 3", "/m/q: 1 | 2 | 3", "/a: 1 | 2 | -"]);
}

#[test]
fn lists_merge_like_lines() {
    for (base, ours, theirs, merged) in [
        (
            "[1, 2, 3]",
            "[0, 1, 2, 3]",
            "[1, 2, 3, 4]",
            "[0, 1, 2, 3, 4]",
        ),
        ("[1, 2, 3]", "[1, 3]", "[1, 2, 3, 4]", "[1, 3, 4]"),
        ("[1, 2]", "[9, 2]", "[1, 8]", "[9, 8]"),
        ("[1, 2, 3]", "[1, 7, 2, 3]", "[1, 7, 2, 4]", "[1, 7, 2, 4]"),
        (
            "[[1], [2], 3]",
            "[[1], [2, 2], 3]",
            "[[1], [2], 4]",
            "[[1], [2, 2], 4]",
        ),
        ("[1,2,3]", "[]", "[1,2,3 ]", "[ ]"),
    ] {
        assert_eq!(alike(&Json, base, ours, theirs), merged);
    }
    for (base, ours, theirs) in [
        ("[1]", "[1, 2]", "[1, 3]"),
        ("[1]", "[2]", "[3]"),
        ("[1, 2]", "[9, 2]", "[1, 5, 2]"),
        ("[1, 2]", "[]", "[1, 3]"),
    ] {
        let (hunks, suggestion) = conflict(&Json, base, ours, theirs);
        assert_eq!(hunks, [format!(": {base} | {ours} | {theirs}")]);
        assert_eq!(suggestion, theirs);
    }
}

#[test]
fn lists_of_named_elements_merge_by_name() {
    for (base, ours, theirs, merged) in [
        (
            r#"[{"id": 1, "a": 1, "b": 1}]"#,
            r#"[{"id": 1, "a": 2, "b": 1}]"#,
            r#"[{"id": 1, "a": 1, "b": 2}]"#,
            r#"[{"id": 1, "a": 2, "b": 2}]"#,
        ),
        (
            r#"[{"name": "m"}]"#,
            r#"[{"name": "m"}, {"name": "b"}]"#,
            r#"[{"name": "m"}, {"name": "a"}]"#,
            r#"[{"name": "m"}, {"name": "a"}, {"name": "b"}]"#,
        ),
        (
            r#"[{"key": 1}, {"key": "1", "x": 1}]"#,
            r#"[{"key": "1", "x": 1}]"#,
            r#"[{"key": 1}, {"key": "1", "x": 2}]"#,
            r#"[{"key": "1", "x": 2}]"#,
        ),
        (
            r#"[{"id": 1}, {"id": 2}, {"id": 3, "v": 0}]"#,
            r#"[{"id": 3, "v": 0}, {"id": 2}, {"id": 1}]"#,
            r#"[{"id": 1}, {"id": 3, "v": 1}]"#,
            r#"[{"id": 3, "v": 1}, {"id": 1}]"#,
        ),
    ] {
        assert_eq!(alike(&Json, base, ours, theirs), merged);
    }
    let (hunks, _) = conflict(
        &Json,
        r#"{"l": [{"id": 7}, {"id": 1, "v": 1}]}"#,
        r#"{"l": [{"id": 1, "v": 2}]}"#,
        r#"{"l": [{"id": 7}, {"id": 1, "v": 3}]}"#,
    );
    assert_eq!(hunks, ["/l/0/v: 1 | 2 | 3"]);
    let (hunks, _) = conflict(
        &Json,
        r#"[{"id":1},{"id":2},{"id":3}]"#,
        r#"[{"id":3},{"id":2},{"id":1}]"#,
        r#"[{"id":2},{"id":1},{"id":3}]"#,
    );
    assert_eq!(hunks.len(), 1, "both moved them: {hunks:?}");
}

#[test]
fn a_duplicate_name_identifies_no_element() {
    let base = r#"[{"id": 1, "v": 1}, {"id": 1, "v": 2}]"#;
    let ours = r#"[{"id": 1, "v": 9}, {"id": 1, "v": 2}]"#;
    let theirs = r#"[{"id": 1, "v": 1}, {"id": 1, "v": 8}]"#;
    let merged = r#"[{"id": 1, "v": 9}, {"id": 1, "v": 8}]"#;
    assert_eq!(alike(&Json, base, ours, theirs), merged);
}

#[test]
fn values_are_equal_in_any_spelling() {
    for (base, ours, theirs, merged) in [
        (
            r#"{"a": 1}"#,
            r#"{"a": 20}"#,
            r#"{"a": 2e1}"#,
            r#"{"a": 20}"#,
        ),
        (
            r#"{"a": 1}"#,
            r#"{"a": 0.50}"#,
            r#"{"a": 5E-1}"#,
            r#"{"a": 0.50}"#,
        ),
        (
            r#"{"a": 100}"#,
            r#"{"a": 1e2}"#,
            r#"{"a": 7}"#,
            r#"{"a": 7}"#,
        ),
        (
            r#"{"a": 1}"#,
            r#"{"a": "é"}"#,
            r#"{"a": "\u00e9"}"#,
            r#"{"a": "é"}"#,
        ),
        (
            r#"{"k": 1}"#,
            r#"{"\u006b": 2}"#,
            r#"{ "k": 1}"#,
            r#"{ "\u006b": 2}"#,
        ),
        (
            r#"{"a": 1}"#,
            r#"{"a": {"x": 1, "y": 2}}"#,
            r#"{"a": {"y": 2, "x": 1}}"#,
            r#"{"a": {"x": 1, "y": 2}}"#,
        ),
    ] {
        match merge(&Json, base, ours, theirs) {
            Merged::Clean(text) => assert_eq!(String::from_utf8(text).unwrap(), merged),
            other => assert!(
                base.contains(r#""a": 1}"#) && merged.contains('x'),
                "{other:?}"
            ),
        }
    }
    for (ours, theirs) in [
        ("1", r#""1""#),
        ("0", "-0"),
        ("1e400", "1e401"),
        ("null", "false"),
    ] {
        conflict(&Json, "7", ours, theirs);
    }
}

#[test]
fn rejects_invalid_json() {
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    let unclosed = "[".repeat(1_000_000);
    let many = format!("[{}0]", "0,".repeat(600_000));
    for bad in [
        "",
        "{",
        r#"{"a": 1} x"#,
        r#"{"a": 1, "a": 2}"#,
        r#"{"a": 1, "\u0061": 2}"#,
        r#"{"x": {"a": 1, "a": 1}}"#,
        "{'a': 1}",
        "{a: 1}",
        r#"{"a": 01}"#,
        r#"{"a": 1.}"#,
        r#"{"a": +1}"#,
        r#"{"a": NaN}"#,
        r#"{"a": 0x10}"#,
        r#"{"a" 1}"#,
        r#"{"a": 1 "b": 2}"#,
        "[1 2]",
        "[,]",
        "{\"a\": \"\n\"}",
        r#"{"a": "\ud800"}"#,
        r#"{"a": "\x"}"#,
        "/* open",
        "{}\u{a0}",
        &deep,
        &unclosed,
        &many,
    ] {
        let good = [r#"{"a": 1}"#, r#"{"a": 2}"#];
        let short = &bad[..bad.len().min(40)];
        assert_eq!(
            merge(&Json, good[0], good[1], bad),
            Merged::NotMine,
            "{short}"
        );
        assert_eq!(
            merge(&Json, good[0], bad, good[1]),
            Merged::NotMine,
            "{short}"
        );
        assert_eq!(
            merge(&Json, bad, good[0], good[1]),
            Merged::NotMine,
            "{short}"
        );
    }
    let merged = Json.merge(&elevo_merge::Versions {
        base: Some(b"1"),
        ours: b"2",
        theirs: b"\"\xff\"",
    });
    assert_eq!(merged, Merged::NotMine);
}

#[test]
fn the_deepest_nesting_that_is_read_is_merged() {
    let nested = |inside: &str| format!("{}{inside}{}", r#"{"a":"#.repeat(127), "}".repeat(127));
    let merged = alike(
        &Json,
        &nested(r#"{"x":1,"y":1}"#),
        &nested(r#"{"x":2,"y":1}"#),
        &nested(r#"{"x":1,"y":2}"#),
    );
    assert_eq!(merged, nested(r#"{"x":2,"y":2}"#));
}
