//! The conflicts that the text driver reports, and its suggestions.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use elevo_merge::{
    Conflicted, Driver, Labels, Lines, MarkerStyle, Merged, Place, Text, Versions, marked,
};

fn merge(base: &str, ours: &str, theirs: &str) -> Merged {
    Text.merge(&Versions {
        base: Some(base.as_bytes()),
        ours: ours.as_bytes(),
        theirs: theirs.as_bytes(),
    })
}

fn conflict(base: &str, ours: &str, theirs: &str) -> Conflicted {
    match merge(base, ours, theirs) {
        Merged::Conflict(conflicted) => conflicted,
        other => panic!("no conflict: {other:?}"),
    }
}

fn suggestion(base: &str, ours: &str, theirs: &str) -> String {
    String::from_utf8(conflict(base, ours, theirs).suggestion).unwrap()
}

fn clean(base: &str, ours: &str, theirs: &str) -> String {
    match merge(base, ours, theirs) {
        Merged::Clean(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("not clean: {other:?}"),
    }
}

#[test]
fn a_conflict_has_its_lines_in_each_version() {
    let conflicted = conflict("a\nb\nc\nd\n", "new\na\nB\nc\nd\n", "a\nbb\nc\n");
    let [hunk] = &conflicted.hunks[..] else {
        panic!("{conflicted:?}");
    };
    let lines = Lines {
        base: 1..2,
        ours: 2..3,
        theirs: 1..2,
    };
    assert_eq!(hunk.place, Place::Lines(lines));
    assert_eq!(hunk.base.as_deref(), Some(&b"b\n"[..]));
    assert_eq!(hunk.ours.as_deref(), Some(&b"B\n"[..]));
    assert_eq!(hunk.theirs.as_deref(), Some(&b"bb\n"[..]));
    assert_eq!(conflicted.suggestion, b"new\na\nbb\nc\n");
    assert_eq!(
        conflicted.reason,
        "both sides changed the same lines: the workspace's lines"
    );
}

#[test]
fn a_side_that_removed_the_lines_has_no_content() {
    let conflicted = conflict("a\nb\nc\n", "a\nc\n", "a\nB\nc\n");
    assert_eq!(conflicted.hunks[0].ours, None);
    assert_eq!(conflicted.hunks[0].theirs.as_deref(), Some(&b"B\n"[..]));
}

#[test]
fn ours_come_first_if_both_added_lines() {
    assert_eq!(
        suggestion("a\nb\n", "a\nx\nb\n", "a\ny\nb\n"),
        "a\nx\ny\nb\n"
    );
    assert_eq!(suggestion("a\n", "a\nx\nz\n", "a\ny\nz\n"), "a\nx\ny\nz\n");
}

#[test]
fn additions_without_a_final_newline_do_not_run_together() {
    assert_eq!(suggestion("", "x", "y"), "x\ny");
    assert_eq!(suggestion("", "w\r\nx", "y\r\nz"), "w\r\nx\r\ny\r\nz");
}

#[test]
fn suggests_the_change_that_is_not_only_whitespace() {
    let (base, indented, changed) = ("if x\ny()\n", "if x\n    y()\n", "if x\nz()\n");
    assert_eq!(suggestion(base, indented, changed), changed);
    assert_eq!(suggestion(base, changed, indented), changed);
}

#[test]
fn suggests_a_change_that_contains_the_other() {
    let (base, small, large) = ("a\n-\nb\n", "a\n1\n2\nb\n", "a\n0\n1\nx\n2\nb\n");
    assert_eq!(suggestion(base, small, large), large);
    assert_eq!(suggestion(base, large, small), large);
}

#[test]
fn choices_by_different_rules_are_all_explained() {
    let base = "a\nb\nc\nd\n";
    let conflicted = conflict(base, "a\n b\nc\nD\n", "a\nB\nc\nE\n");
    assert_eq!(conflicted.hunks.len(), 2);
    assert_eq!(conflicted.suggestion, b"a\nB\nc\nE\n");
    assert!(conflicted.reason.starts_with("for each place"));
}

#[test]
fn changed_line_endings_do_not_hide_other_changes() {
    let (unix, dos) = ("a\nb\nc\n", "a\r\nb\r\nc\r\n");
    assert_eq!(clean(unix, dos, "a\nB\nc\n"), "a\r\nB\r\nc\r\n");
    assert_eq!(clean(dos, "a\r\nB\r\nc\r\n", unix), "a\nB\nc\n");
    assert_eq!(clean(unix, dos, "a\nb\nc"), "a\r\nb\r\nc");
    assert_eq!(
        suggestion(unix, "a\r\nX\r\nc\r\n", "a\nY\nc\n"),
        "a\r\nY\r\nc\r\n"
    );
}

#[test]
fn mixed_line_endings_are_left_as_they_are() {
    let base = "a\r\nb\nc\r\nd\ne\n";
    assert_eq!(
        clean(base, "A\r\nb\nc\r\nd\ne\n", "a\r\nb\nc\r\nd\ne\r\n"),
        "A\r\nb\nc\r\nd\ne\r\n"
    );
}

#[test]
fn a_missing_final_newline_belongs_to_the_last_line() {
    assert_eq!(clean("a\nb\nc\n", "A\nb\nc\n", "a\nb\nc"), "A\nb\nc");
    conflict("a\nb\n", "a\nB\n", "a\nb");
}

#[test]
fn a_file_with_a_nul_byte_is_left_to_another_driver() {
    assert_eq!(merge("a\0b", "a\0c", "a\0d"), Merged::NotMine);
    let late = "x\n".repeat(4000) + "\0";
    assert_eq!(
        merge(&late, &format!("{late}y"), &late),
        Merged::Clean(format!("{late}y").into())
    );
}

#[test]
fn markers_show_a_conflict_as_git_does() {
    let versions = Versions {
        base: Some(b"a\nb\nc\n"),
        ours: b"a\nx\nB\nc\n",
        theirs: b"a\nx\nbb\nc\n",
    };
    let labels = Labels {
        ours: "head",
        base: "base",
        theirs: "agent 7",
    };
    let shown = |style| String::from_utf8(marked(&versions, &labels, style).unwrap()).unwrap();
    assert_eq!(
        shown(MarkerStyle::Diff3),
        "a\n<<<<<<< head\nx\nB\n||||||| base\nb\n=======\nx\nbb\n>>>>>>> agent 7\nc\n"
    );
    assert_eq!(
        shown(MarkerStyle::Zdiff3),
        "a\nx\n<<<<<<< head\nB\n||||||| base\nb\n=======\nbb\n>>>>>>> agent 7\nc\n"
    );
}
