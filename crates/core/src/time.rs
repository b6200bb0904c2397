/// A point in time as file systems record it: seconds since 1970 (negative for
/// earlier times) and nanoseconds within that second. This crate never reads a
/// clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
}

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self {
        seconds: 0,
        nanos: 0,
    };

    /// Creates a timestamp, or `None` if `nanos` is a full second or more.
    pub const fn new(seconds: i64, nanos: u32) -> Option<Self> {
        if nanos < 1_000_000_000 {
            Some(Self { seconds, nanos })
        } else {
            None
        }
    }

    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds after [`Self::seconds`], below one billion.
    pub const fn nanos(self) -> u32 {
        self.nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_below_a_second_and_timestamps_are_ordered() {
        assert_eq!(Timestamp::new(0, 1_000_000_000), None);
        let before = Timestamp::new(-1, 999_999_999).unwrap();
        assert_eq!(Timestamp::new(0, 0), Some(Timestamp::EPOCH));
        assert!(before < Timestamp::EPOCH);
        assert_eq!((before.seconds(), before.nanos()), (-1, 999_999_999));
    }
}
