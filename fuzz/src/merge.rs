//! Three versions of a file that agents wrote.

use elevo_merge::{Drivers, Merged, Versions};

/// Merges three versions, which a byte that is in no text separates: neither panics nor goes on for
/// ever, and keeps what every driver promises.
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
