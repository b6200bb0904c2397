//! JSON: properties that hold for every file.

use elevo_merge::{Driver, Json, Merged, Versions};
use proptest::prelude::*;
use serde_json::Value;

use crate::random::{Edit, Entry, Layout, document, entries, layouts};
use crate::support::{clean, merge};

fn value(text: &str) -> Value {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str(text).unwrap()
}

/// Applies edits to the entries at indexes of this parity.
fn edit(entries: &[Entry], edits: &[Edit], parity: usize) -> Vec<Entry> {
    let mut edited = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let edit = edits.get(at).filter(|_| at % 2 == parity);
        edited.extend(edit.map_or(vec![entry.clone()], |edit| edit.apply(entry, parity)));
    }
    edited
}

/// The entries with the edits of both sides.
fn expected(entries: &[Entry], ours: &[Edit], theirs: &[Edit]) -> Vec<Entry> {
    let all = entries.iter().enumerate();
    all.flat_map(|(at, entry)| [ours, theirs][at % 2][at].apply(entry, at % 2))
        .collect()
}

proptest! {
    #[test]
    fn an_unchanged_side_gives_the_other_to_the_byte(base in ".*", other in ".*") {
        for (ours, theirs) in [(&base, &other), (&other, &base)] {
            let merged = merge(&Json, &base, ours, theirs);
            prop_assert_eq!(merged, Merged::Clean(other.clone().into_bytes()));
        }
    }

    #[test]
    fn edits_of_different_keys_merge_and_leave_the_rest_alone(
        base in entries(),
        our_edits in prop::collection::vec(Edit::any(), 12),
        their_edits in prop::collection::vec(Edit::any(), 12),
        layout in layouts(),
    ) {
        let ours = edit(&base, &our_edits, 0);
        let theirs = edit(&base, &their_edits, 1);
        let [base_text, our_text, their_text] =
            [&base, &ours, &theirs].map(|entries| document(entries, layout));
        let merged = clean(&Json, &base_text, &our_text, &their_text);
        let expected = expected(&base, &our_edits, &their_edits);
        prop_assert_eq!(value(&merged), value(&document(&expected, layout)));
        prop_assert_eq!(&merged, &clean(&Json, &base_text, &their_text, &our_text));
        for entry in &base {
            let kept = [&ours, &theirs].iter().all(|side| side.contains(entry));
            prop_assert!(!kept || merged.contains(&entry.text()), "{} in {merged}", entry.text());
        }
    }

    #[test]
    fn sides_of_different_layouts_merge_to_the_same_value(
        base in entries(),
        our_edits in prop::collection::vec(Edit::any(), 12),
        their_edits in prop::collection::vec(Edit::any(), 12),
        layouts in [layouts(), layouts(), layouts()],
    ) {
        let ours = edit(&base, &our_edits, 0);
        let theirs = edit(&base, &their_edits, 1);
        let base = document(&base, layouts[0]);
        let ours = document(&ours, layouts[1]);
        let theirs = document(&theirs, layouts[2]);
        let merged = clean(&Json, &base, &ours, &theirs);
        let swapped = clean(&Json, &base, &theirs, &ours);
        prop_assert_eq!(value(&merged), value(&swapped));
    }

    #[test]
    fn any_three_documents_merge_or_conflict_on_both_sides(
        base in entries(), ours in entries(), theirs in entries(),
    ) {
        let [base, ours, theirs] =
            [base, ours, theirs].map(|entries| document(&entries, Layout::LINES));
        match (merge(&Json, &base, &ours, &theirs), merge(&Json, &base, &theirs, &ours)) {
            (Merged::Clean(one), Merged::Clean(other)) => {
                let [one, other] = [one, other].map(|text| String::from_utf8(text).unwrap());
                prop_assert_eq!(value(&one), value(&other));
            }
            (Merged::Conflict(one), Merged::Conflict(other)) => {
                prop_assert_eq!(one.hunks.len(), other.hunks.len());
                value(&String::from_utf8(one.suggestion).unwrap());
            }
            (one, other) => prop_assert!(false, "{one:?} against {other:?}"),
        }
    }

    #[test]
    fn invalid_json_does_not_panic(
        base in entries(),
        cut in any::<prop::sample::Index>(),
        flip in any::<u8>(),
    ) {
        let text = document(&base, Layout::LINES).into_bytes();
        let at = cut.index(text.len());
        let mut damaged = text.clone();
        damaged[at] ^= flip;
        let mut changed = text.clone();
        changed.push(b' ');
        for theirs in [&text[..at], &damaged] {
            Json.merge(&Versions { base: Some(&text), ours: &changed, theirs });
            Json.merge(&Versions { base: None, ours: theirs, theirs: &changed });
        }
    }
}
