//! The promises of the text driver for any three versions.

use std::collections::HashSet;

use elevo_merge::{
    Conflicted, Driver, Hunk, Labels, Lines, MarkerStyle, Merged, Place, Text, Versions, marked,
};

/// Fails if a promise is broken.
pub(crate) fn check(versions: &Versions<'_>) {
    let merged = Text.merge(versions);
    swapping_changes_nothing(versions, &merged);
    one_side_unchanged_gives_the_other(versions);
    match &merged {
        Merged::Clean(bytes) => {
            check_lines(versions, bytes);
            nothing_new_is_lost(versions, bytes);
            let styles = [MarkerStyle::Diff3, MarkerStyle::Zdiff3];
            for style in styles {
                let marked = marked(versions, &Labels::default(), style);
                assert_eq!(marked.as_ref(), Some(bytes), "{versions:?}");
            }
        }
        Merged::Conflict(conflicted) => check_conflict(versions, conflicted),
        Merged::NotMine => {
            let texts = [
                versions.base.unwrap_or_default(),
                versions.ours,
                versions.theirs,
            ];
            assert!(texts.iter().any(|text| text.contains(&0)), "{versions:?}");
        }
    }
}

fn swapping_changes_nothing(versions: &Versions<'_>, merged: &Merged) {
    let swapped = Text.merge(&Versions {
        ours: versions.theirs,
        theirs: versions.ours,
        ..*versions
    });
    match (merged, &swapped) {
        (Merged::Conflict(one), Merged::Conflict(other)) => {
            assert_eq!(one.hunks.len(), other.hunks.len(), "{versions:?}");
        }
        (one, other) => assert_eq!(one, other, "{versions:?}"),
    }
}

fn one_side_unchanged_gives_the_other(versions: &Versions<'_>) {
    let Some(base) = versions.base else { return };
    for side in [versions.ours, versions.theirs] {
        for (ours, theirs) in [(base, side), (side, base)] {
            let merged = Text.merge(&Versions {
                base: Some(base),
                ours,
                theirs,
            });
            if merged != Merged::NotMine {
                assert_eq!(merged, Merged::Clean(side.to_vec()), "{versions:?}");
            }
        }
    }
}

/// Checks that every line of a result is in one of the versions. Line endings
/// are compared elsewhere, because they may be merged for a whole file.
fn check_lines(versions: &Versions<'_>, result: &[u8]) {
    let base = versions.base.unwrap_or_default();
    let known: HashSet<&[u8]> = [base, versions.ours, versions.theirs]
        .into_iter()
        .flat_map(lines)
        .collect();
    for line in lines(result) {
        assert!(known.contains(line), "{line:?} of {versions:?}");
    }
}

/// Checks that every line that only one side has is in a clean result.
fn nothing_new_is_lost(versions: &Versions<'_>, result: &[u8]) {
    let result: HashSet<&[u8]> = lines(result).collect();
    let base: HashSet<&[u8]> = lines(versions.base.unwrap_or_default()).collect();
    for line in lines(versions.ours).chain(lines(versions.theirs)) {
        assert!(
            base.contains(line) || result.contains(line),
            "{line:?} is lost of {versions:?}"
        );
    }
}

fn check_conflict(versions: &Versions<'_>, conflicted: &Conflicted) {
    check_lines(versions, &conflicted.suggestion);
    assert!(!conflicted.hunks.is_empty() && !conflicted.reason.is_empty());
    let mut end = (0, 0, 0);
    for Hunk {
        place,
        base,
        ours,
        theirs,
    } in &conflicted.hunks
    {
        let Place::Lines(Lines {
            base: in_base,
            ours: in_ours,
            theirs: in_theirs,
        }) = place
        else {
            panic!("{place:?} is not a place in a text");
        };
        assert!(
            end <= (in_base.start, in_ours.start, in_theirs.start),
            "{end:?} {place:?} of {versions:?}"
        );
        end = (in_base.end, in_ours.end, in_theirs.end);
        assert_ne!(ours, theirs, "{versions:?}");
        let whole = [
            (versions.base.unwrap_or_default(), in_base, base),
            (versions.ours, in_ours, ours),
            (versions.theirs, in_theirs, theirs),
        ];
        for (text, range, part) in whole {
            let expected: Vec<&[u8]> = lines(text)
                .skip(range.start as usize)
                .take(range.len())
                .collect();
            assert_eq!(expected.len(), range.len(), "{place:?} of {versions:?}");
            assert_eq!(part.is_none(), range.is_empty());
            assert!(lines(part.as_deref().unwrap_or_default()).eq(expected));
        }
    }
}

/// Lines without their endings.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    })
}
