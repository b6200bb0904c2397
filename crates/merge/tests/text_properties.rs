//! The promises of the text driver, for any versions.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use elevo_merge::{Driver, Merged, Text, Versions};
use proptest::collection::vec;
use proptest::prelude::*;

#[path = "text_support/hostile.rs"]
mod hostile;
#[path = "text_support/promises.rs"]
mod promises;

/// A text of few lines that are often equal.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => prop::sample::select(vec!["a\n", "b\n", "c\n", "\n", "}\n", "  a\n"]),
        1 => prop::sample::select(vec!["a\r\n", "\r\n", "d\r\n", "\r"]),
    ];
    let end = prop::sample::select(vec!["", "", "a", "\r"]);
    (vec(line, 0..24), end).prop_map(|(lines, end)| (lines.concat() + end).into_bytes())
}

/// An edit at one line: the number of new lines before it, whether the line is
/// removed, and the side that made the edit.
#[derive(Clone, Debug)]
struct Edit {
    by_us: bool,
    added: usize,
    dropped: bool,
}

fn edit() -> impl Strategy<Value = Option<Edit>> {
    let edit = (any::<bool>(), 0..3usize, any::<bool>()).prop_map(|(by_us, added, dropped)| Edit {
        by_us,
        added,
        dropped,
    });
    prop::option::weighted(0.3, edit)
}

/// The lines of the base with the selected edits, and an unchanged line after
/// each place.
fn applied(edits: &[Option<Edit>], whose: impl Fn(&Edit) -> bool) -> Vec<u8> {
    let mut text = String::new();
    for (place, edit) in edits.iter().enumerate() {
        let edit = edit.as_ref().filter(|edit| whose(edit));
        for new in 0..edit.map_or(0, |edit| edit.added) {
            text += &format!("new {place} {new}\n");
        }
        if !edit.is_some_and(|edit| edit.dropped) {
            text += &format!("line {place}\n");
        }
        text += &format!("kept {place}\n");
    }
    text.into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_versions_keep_the_promises(
        base in prop::option::weighted(0.9, text()),
        ours in text(),
        theirs in text(),
    ) {
        promises::check(&Versions { base: base.as_deref(), ours: &ours, theirs: &theirs });
    }

    #[test]
    fn changes_in_different_places_are_all_in_the_result(edits in vec(edit(), 1..40)) {
        let merged = Text.merge(&Versions {
            base: Some(&applied(&edits, |_| false)),
            ours: &applied(&edits, |edit| edit.by_us),
            theirs: &applied(&edits, |edit| !edit.by_us),
        });
        prop_assert_eq!(merged, Merged::Clean(applied(&edits, |_| true)));
    }
}

#[test]
fn hostile_bytes_do_no_harm() {
    hostile::survive(1, 500);
}
