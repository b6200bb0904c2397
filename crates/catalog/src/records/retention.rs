use elevo_core::Timestamp;
use elevo_objects::SnapshotId;
use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};

use crate::columns::ImpossibleValue;

/// The versions of a project that keep their content. A version that a record
/// needs is kept regardless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// All versions.
    #[default]
    All,
    /// This many of the newest versions; at least 1.
    Last(u32),
    /// The last version of each day in UTC, for this many days; at least 1.
    Daily(u32),
    /// Only versions that a record needs.
    Named,
}

/// A version that another one has replaced as the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplacedVersion {
    /// Its sequence number; 0 is the version the project was created with.
    pub(crate) sequence: u64,
    /// Time at which it became the head.
    pub(crate) created: Timestamp,
    /// Time at which the next version became the head.
    pub(crate) replaced: Timestamp,
}

impl Retention {
    /// Returns whether retention keeps a version that no record needs. `newest`
    /// is the sequence number of the head. For implementations.
    pub(crate) fn keeps(self, version: ReplacedVersion, newest: u64, now: Timestamp) -> bool {
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

    /// Returns the stored form: the values of the columns `retention` and
    /// `retention_count`.
    pub(crate) const fn to_columns(self) -> (&'static str, Option<i64>) {
        match self {
            Self::All => ("all", None),
            Self::Last(count) => ("last", Some(count as i64)),
            Self::Daily(days) => ("daily", Some(days as i64)),
            Self::Named => ("named", None),
        }
    }
}

impl<'r, R: Row> FromRow<'r, R> for Retention
where
    &'static str: ColumnIndex<R>,
    &'r str: Decode<'r, R::Database> + Type<R::Database>,
    Option<i64>: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        let count: Option<i64> = row.try_get("retention_count")?;
        let count = count.map(u32::try_from);
        match (row.try_get("retention")?, count) {
            ("all", None) => Ok(Self::All),
            ("last", Some(Ok(count))) => Ok(Self::Last(count)),
            ("daily", Some(Ok(days))) => Ok(Self::Daily(days)),
            ("named", None) => Ok(Self::Named),
            _ => Err(sqlx::Error::ColumnDecode {
                index: "retention".into(),
                source: ImpossibleValue(None).into(),
            }),
        }
    }
}

/// A page of versions to compare with the retention of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnkeptQuery {
    /// The current time; days are counted from it.
    pub now: Timestamp,
    /// Versions that became the head at this time or later are kept.
    pub since: Timestamp,
    /// Only versions after this sequence number; `None` for all.
    pub after: Option<u64>,
    /// Maximum number of versions to read: 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    pub limit: u32,
}

/// A page of versions that retention does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// The snapshots of the versions. May be empty though there are more.
    pub snapshots: Vec<SnapshotId>,
    /// The version to continue after; `None` at the end.
    pub next: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    fn version(sequence: u64, created: i64, replaced: i64) -> ReplacedVersion {
        let at = |seconds| Timestamp::new(seconds, 0).unwrap();
        ReplacedVersion {
            sequence,
            created: at(created),
            replaced: at(replaced),
        }
    }

    #[test]
    fn the_last_versions_are_counted_from_the_newest() {
        let now = Timestamp::EPOCH;
        let keeps = |sequence| Retention::Last(3).keeps(version(sequence, 0, 0), 10, now);
        assert!(keeps(8) && keeps(9));
        assert!(!keeps(7) && !keeps(0));
        assert!(!Retention::Last(1).keeps(version(9, 0, 0), 10, now));
        assert!(Retention::Last(u32::MAX).keeps(version(0, 0, 0), 10, now));
    }

    #[test]
    fn keeps_the_last_version_of_each_day_for_the_given_days() {
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
