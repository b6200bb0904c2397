//! The driver for JSON without conflicts.

use elevo_merge::{Crdt, Driver, Merged, Versions};
use serde_json::{Value, json};

use crate::support::{alike, clean, merge, text};

const TYPES: &str = r#""$crdt": {"types": {"/n": "counter", "/s": "set", "/l": "list", "/r": "register", "/u/*/seen": "counter"}}"#;

/// A file with the types, followed by these entries.
fn file(entries: &str) -> String {
    format!("{{{TYPES}, {entries}}}")
}

#[track_caller]
fn united(base: &str, ours: &str, theirs: &str) -> String {
    let [base, ours, theirs] = [base, ours, theirs].map(file);
    let merged = alike(&Crdt, &base, &ours, &theirs);
    let entries = merged.strip_prefix(&format!("{{{TYPES}, ")).unwrap();
    entries.strip_suffix('}').unwrap().to_owned()
}

#[test]
fn claims_files_by_their_names() {
    assert!(Crdt.claims(b"tasks.crdt.json") && !Crdt.claims(b"tasks.json"));
    assert!(Crdt.counts_twice());
}

#[test]
fn the_list_of_the_documentation_merges() {
    let merged = alike(&Crdt, "[]", r#"["task-1"]"#, r#"["task-2"]"#);
    assert_eq!(merged, r#"["task-1", "task-2"]"#);
}

#[test]
fn counters_add_up_in_any_spelling() {
    for (base, ours, theirs, merged) in [
        (r#""n": 1"#, r#""n": 2"#, r#""n": 2"#, r#""n": 3"#),
        (r#""n": 10"#, r#""n": 7"#, r#""n": 12"#, r#""n": 9"#),
        (r#""n": 0.1"#, r#""n": 0.2"#, r#""n": 1e-1"#, r#""n": 0.2"#),
        (r#""n": 1.5"#, r#""n": 2"#, r#""n": 1"#, r#""n": 1.5"#),
        (
            r#""m": 0"#,
            r#""m": 0, "n": 2"#,
            r#""m": 0, "n": 2"#,
            r#""m": 0, "n": 4"#,
        ),
        (
            r#""u": {"a": {"seen": 1}}"#,
            r#""u": {"a": {"seen": 2}, "b": {"seen": 1}}"#,
            r#""u": {"a": {"seen": 4}, "b": {"seen": 1}}"#,
            r#""u": {"a": {"seen": 5}, "b": {"seen": 2}}"#,
        ),
    ] {
        assert_eq!(united(base, ours, theirs), merged);
    }
}

#[test]
fn lists_become_their_union_without_removed_elements() {
    for (base, ours, theirs, merged) in [
        (
            r#""l": [1, 2, 3]"#,
            r#""l": [2, 3, 5]"#,
            r#""l": [1, 2, 4]"#,
            r#""l": [2, 4, 5]"#,
        ),
        (
            r#""l": [1]"#,
            r#""l": [0, 1]"#,
            r#""l": [1, 10, 9]"#,
            r#""l": [0, 1, 9, 10]"#,
        ),
        (
            r#""l": []"#,
            r#""l": ["a"]"#,
            r#""l": ["a", "b"]"#,
            r#""l": ["a", "b"]"#,
        ),
        (
            r#""l": []"#,
            r#""l": ["a", "a"]"#,
            r#""l": ["a"]"#,
            r#""l": ["a", "a"]"#,
        ),
        (
            r#""l": []"#,
            r#""l": [{"at": "2026-01-02", "a": 1}]"#,
            r#""l": [{"at": "2026-01-01", "z": 1}]"#,
            r#""l": [{"at": "2026-01-01", "z": 1}, {"at": "2026-01-02", "a": 1}]"#,
        ),
    ] {
        assert_eq!(united(base, ours, theirs), merged);
    }
}

#[test]
fn sets_have_no_duplicates() {
    let merged = united(
        r#""s": ["x"]"#,
        r#""s": ["x", "b", "b"]"#,
        r#""s": ["x", "a"]"#,
    );
    assert_eq!(merged, r#""s": ["x", "a", "b"]"#);
}

#[test]
fn elements_with_a_name_are_merged() {
    let merged = united(
        r#""t": [{"id": 1, "done": false, "who": null}]"#,
        r#""t": [{"id": 1, "done": true, "who": null}, {"id": 10}]"#,
        r#""t": [{"id": 1, "done": false, "who": "b"}, {"id": 9}]"#,
    );
    assert_eq!(
        merged,
        r#""t": [{"id": 1, "done": true, "who": "b"}, {"id": 9}, {"id": 10}]"#
    );
}

#[test]
fn a_change_in_a_map_wins_over_a_removal() {
    for (base, ours, theirs, merged) in [
        (
            r#""m": {"a": 1, "b": 1}"#,
            r#""m": {"b": 1}"#,
            r#""m": {"a": 1, "b": 2}"#,
            r#""m": {"b": 2}"#,
        ),
        (
            r#""m": {"a": 1, "b": 1}"#,
            r#""m": {"b": 2}"#,
            r#""m": {"a": 5, "b": 1}"#,
            r#""m": {"a": 5, "b": 2}"#,
        ),
    ] {
        assert_eq!(united(base, ours, theirs), merged);
    }
}

#[test]
fn the_later_time_of_a_register_wins() {
    for (base, ours, theirs, merged) in [
        (
            r#""r": {"value": 1, "at": 1}"#,
            r#""r": {"value": "x", "at": 10}"#,
            r#""r": {"value": "y", "at": 9}"#,
            r#""r": {"value": "x", "at": 10}"#,
        ),
        (
            r#""any": {"value": [1], "at": "2026-01-01T00:00:00Z"}"#,
            r#""any": {"value": [2], "at": "2026-01-02T00:00:00Z"}"#,
            r#""any": {"value": [3], "at": "2026-01-02T00:00:00Z"}"#,
            r#""any": {"value": [3], "at": "2026-01-02T00:00:00Z"}"#,
        ),
    ] {
        assert_eq!(united(base, ours, theirs), merged);
    }
}

#[test]
fn the_later_writer_wins_where_nothing_else_decides() {
    for (base, ours, theirs) in [
        (r#""a": 1"#, r#""a": 2"#, r#""a": 3"#),
        (r#""a": 1"#, r#""a": [2]"#, r#""a": {"b": 3}"#),
        (r#""r": [1]"#, r#""r": [1, 2]"#, r#""r": [1, 3]"#),
        (r#""n": "x""#, r#""n": 2"#, r#""n": 3"#),
    ] {
        let [base, ours, theirs] = [base, ours, theirs].map(file);
        assert_eq!(clean(&Crdt, &base, &ours, &theirs), theirs);
        assert_eq!(clean(&Crdt, &base, &theirs, &ours), ours);
    }
}

#[test]
fn numbers_too_large_to_add_are_registers() {
    let [base, ours, theirs] = ["1", "1e200", "2e-200"].map(|n| file(&format!(r#""n": {n}"#)));
    assert_eq!(clean(&Crdt, &base, &ours, &theirs), theirs);
}

#[test]
fn the_text_stays_as_it_was() {
    let base = "{\n  // tasks\n  \"tasks\": [\n    \"a\", // first\n    \"b\"\n  ],\n  \"big\": 1.50e3\n}\n";
    let ours = base.replace("\"b\"\n", "\"b\",\n    \"d\" // ours\n");
    let theirs = base
        .replace("\"b\"\n", "\"b\",\n    \"c\"\n")
        .replace("// tasks", "// all tasks");
    let merged = base
        .replace("\"b\"\n", "\"b\",\n    \"c\",\n    \"d\" // ours\n")
        .replace("// tasks", "// all tasks");
    assert_eq!(alike(&Crdt, base, &ours, &theirs), merged);
}

#[test]
fn comments_that_both_sides_changed_do_not_conflict() {
    let [base, ours, theirs] = ["a", "b", "c"].map(|word| format!("{{}} // {word}\n"));
    assert_eq!(clean(&Crdt, &base, &ours, &theirs), theirs);
}

#[test]
fn both_sides_created_the_file() {
    let merged = Crdt.merge(&Versions {
        base: None,
        ours: file(r#""n": 1, "l": [2]"#).as_bytes(),
        theirs: file(r#""n": 1, "l": [1]"#).as_bytes(),
    });
    assert_eq!(text(merged), file(r#""n": 2, "l": [1, 2]"#));
}

#[test]
fn rejects_invalid_json_and_too_many_types() {
    let many: Vec<_> = (0..300)
        .map(|at| (format!("/{at}"), json!("counter")))
        .collect();
    let many = json!({"$crdt": {"types": Value::Object(many.into_iter().collect())}}).to_string();
    for bad in ["", "{", r#"{"a": 1, "a": 2}"#, &many] {
        assert_eq!(merge(&Crdt, "{}", r#"{"a":1}"#, bad), Merged::NotMine);
        assert_eq!(merge(&Crdt, "{}", bad, r#"{"a":1}"#), Merged::NotMine);
    }
}
