//! Limits the rate of log lines that a sandbox can cause. Without a limit, a
//! sandbox could fill the log.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// Number of lines that are logged without a delay.
const BURST: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// Allows ten lines at once, then one per second.
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

    /// Returns `None` if no line may be logged now; otherwise the number of
    /// lines suppressed since the last logged line.
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
    fn frequent_lines_are_suppressed() {
        let sparing = Sparing::new();
        let told = (0..1000).filter(|_| sparing.turn().is_some()).count();
        // On a slow machine, each second of the loop allows one more line.
        assert!((10..15).contains(&told), "{told}");
        let untold = sparing.untold.load(Ordering::Relaxed);
        assert!(untold > 900, "{untold}");
    }
}
