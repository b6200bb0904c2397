//! Three versions of a file that agents wrote.

use elevo_merge::{Drivers, Merged, Versions};

/// Merges three versions, separated by a byte that is never in UTF-8. The driver must not panic or
/// run without end, and must keep the promises of every driver.
pub fn merge(driver: &str, data: &[u8]) {
    let drivers = Drivers::standard();
    let driver = drivers.named(driver).expect("a driver of that name");
    let mut parts = data.splitn(3, |byte| *byte == 0xff);
    let mut part = || parts.next().unwrap_or_default();
    let (base, ours, theirs) = (part(), part(), part());
    let merge = |base, ours, theirs| driver.merge(&Versions { base, ours, theirs });
    let merged = merge(Some(base), ours, theirs);
    assert_eq!(merged, merge(Some(base), ours, theirs), "twice the same");
    merge(None, ours, theirs);
    if merged != Merged::NotMine {
        let unchanged = merge(Some(base), base, theirs);
        assert_eq!(
            unchanged,
            Merged::Clean(theirs.to_vec()),
            "only theirs changed"
        );
    }
}
