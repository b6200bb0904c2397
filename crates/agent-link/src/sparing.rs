//! What a sandbox can bring about as often as it likes is not told as often, or
//! it could fill the log.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// Told at once.
const BURST: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// Told ten times, then once a second.
pub(crate) struct Sparing {
    limit: DefaultDirectRateLimiter,
    untold: AtomicU64,
}

impl Sparing {
    pub(crate) fn new() -> Self {
        let quota = Quota::per_second(NonZeroU32::MIN).allow_burst(BURST);
        Self {
            limit: RateLimiter::direct(quota),
            untold: AtomicU64::new(0),
        }
    }

    /// Whether it is to be told, and how many before it were not.
    pub(crate) fn turn(&self) -> Option<u64> {
        if self.limit.check().is_ok() {
            return Some(self.untold.swap(0, Ordering::Relaxed));
        }
        self.untold.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_told_sometimes() {
        let sparing = Sparing::new();
        let told = (0..1000).filter(|_| sparing.turn().is_some()).count();
        // One or two more if this machine takes a second or two.
        assert!((10..15).contains(&told), "{told}");
        let untold = sparing.untold.load(Ordering::Relaxed);
        assert!(untold > 900, "{untold}");
    }
}
