use elevo_core::Timestamp;
use elevo_objects::SnapshotId;

/// Which versions of a project keep their content. What something needs is
/// kept whatever this says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// All.
    #[default]
    All,
    /// So many, the newest ones; at least 1.
    Last(u32),
    /// The last one of each day in UTC, for so many days; at least 1.
    Daily(u32),
    /// None but those that something needs.
    Named,
}

/// A version that is not the newest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earlier {
    /// Its number; 0 is what the project began with.
    pub(crate) sequence: u64,
    /// When it became the head.
    pub(crate) created: Timestamp,
    /// When the next one did.
    pub(crate) replaced: Timestamp,
}

impl Retention {
    /// Whether a version stays that nothing needs, for implementations. `newest`
    /// is the number of the head.
    pub(crate) fn keeps(self, version: Earlier, newest: u64, now: Timestamp) -> bool {
        let day = |time: Timestamp| time.seconds().div_euclid(24 * 3600);
        match self {
            Self::All => true,
            Self::Last(count) => newest.saturating_sub(version.sequence) < u64::from(count),
            Self::Daily(days) => {
                let made = day(version.created);
                made > day(now) - i64::from(days) && made != day(version.replaced)
            }
            Self::Named => false,
        }
    }
}

/// Which versions are looked at for those that retention does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnkeptQuery {
    /// The present time, from which days are counted.
    pub now: Timestamp,
    /// Versions stay that became the head at this time or later.
    pub since: Timestamp,
    /// Only versions after this one; `None` is all.
    pub after: Option<u64>,
    /// How many are looked at: 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    pub limit: u32,
}

/// Versions that retention does not keep, some of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// May be none though there are more.
    pub snapshots: Vec<SnapshotId>,
    /// The version after which to go on; `None` at the end.
    pub next: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    fn version(sequence: u64, created: i64, replaced: i64) -> Earlier {
        let at = |seconds| Timestamp::new(seconds, 0).unwrap();
        Earlier {
            sequence,
            created: at(created),
            replaced: at(replaced),
        }
    }

    #[test]
    fn the_last_ones_are_counted_from_the_newest() {
        let now = Timestamp::EPOCH;
        let keeps = |sequence| Retention::Last(3).keeps(version(sequence, 0, 0), 10, now);
        assert!(keeps(8) && keeps(9));
        assert!(!keeps(7) && !keeps(0));
        assert!(!Retention::Last(1).keeps(version(9, 0, 0), 10, now));
        assert!(Retention::Last(u32::MAX).keeps(version(0, 0, 0), 10, now));
    }

    #[test]
    fn of_a_day_the_last_one_stays_for_as_many_days() {
        let now = Timestamp::new(10 * DAY + 5, 0).unwrap();
        let keeps = |created, replaced| {
            let version = version(1, created, replaced);
            Retention::Daily(2).keeps(version, 9, now)
        };
        assert!(keeps(10 * DAY - 1, 10 * DAY), "replaced on the next day");
        assert!(!keeps(10 * DAY - 2, 10 * DAY - 1), "replaced on its day");
        assert!(!keeps(9 * DAY - 1, 9 * DAY), "too old");
        assert!(keeps(9 * DAY, 10 * DAY + 1));
        assert!(!keeps(-1, -1) && !keeps(-1, 0), "before 1970");
    }
}
