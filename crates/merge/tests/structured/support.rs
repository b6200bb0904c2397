//! Merges strings, and summarizes the results.

use elevo_merge::{Driver, Merged, Place, Versions};

pub(crate) fn merge(driver: &dyn Driver, base: &str, ours: &str, theirs: &str) -> Merged {
    driver.merge(&Versions {
        base: Some(base.as_bytes()),
        ours: ours.as_bytes(),
        theirs: theirs.as_bytes(),
    })
}

/// Returns a clean result.
#[track_caller]
pub(crate) fn clean(driver: &dyn Driver, base: &str, ours: &str, theirs: &str) -> String {
    text(merge(driver, base, ours, theirs))
}

#[track_caller]
pub(crate) fn text(merged: Merged) -> String {
    match merged {
        Merged::Clean(bytes) => String::from_utf8(bytes).unwrap(),
        Merged::Conflict(conflict) => panic!("{:?}", conflict.hunks),
        Merged::NotMine => panic!("not mine"),
    }
}

/// Returns a clean result that is the same with the sides swapped.
#[track_caller]
pub(crate) fn alike(driver: &dyn Driver, base: &str, ours: &str, theirs: &str) -> String {
    let merged = clean(driver, base, ours, theirs);
    assert_eq!(merged, clean(driver, base, theirs, ours), "swapped");
    merged
}

/// Returns the conflicts as `place: base | ours | theirs`, and the suggestion.
#[track_caller]
pub(crate) fn conflict(
    driver: &dyn Driver,
    base: &str,
    ours: &str,
    theirs: &str,
) -> (Vec<String>, String) {
    brief(merge(driver, base, ours, theirs))
}

#[track_caller]
pub(crate) fn brief(merged: Merged) -> (Vec<String>, String) {
    let Merged::Conflict(conflict) = merged else {
        panic!("{merged:?}");
    };
    let text = |bytes: &Option<Vec<u8>>| {
        let text = bytes.clone().unwrap_or_else(|| b"-".to_vec());
        String::from_utf8(text).unwrap()
    };
    let hunks = conflict.hunks.iter().map(|hunk| {
        let Place::Key(place) = &hunk.place else {
            panic!("{:?}", hunk.place);
        };
        let [base, ours, theirs] = [&hunk.base, &hunk.ours, &hunk.theirs].map(text);
        format!("{place}: {base} | {ours} | {theirs}")
    });
    (
        hunks.collect(),
        String::from_utf8(conflict.suggestion).unwrap(),
    )
}
