//! The clock for expiry times and for deletions by age.
//!
//! Expiry times are stored as wall time, which can jump: a wrong real-time
//! clock, a step of NTP, a machine that was paused. The time since boot does not
//! jump. Each reading compares the progress of both clocks since the last
//! reading. If they differ, every stored expiry time is moved by the difference
//! before it is compared with the wall clock. So a sandbox with one hour left
//! still has one hour left after a jump.
//!
//! The last reading is stored in the catalog for the next server process. If the
//! machine was rebooted in between, only the time since boot counts as passed;
//! the time in which the machine was off does not count.

use std::sync::Arc;

use elevo_catalog::Catalog;
use elevo_core::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::failure::{Failure, Result};
use crate::platform::clock::{Clocks, Reading};

/// The setting that stores the last reading.
const SETTING: &str = "clock.last";
/// Maximum difference between the progress of both clocks that is not a jump, in
/// microseconds. The gradual corrections of NTP are smaller.
const TOLERANCE: i64 = 5_000_000;
/// Interval at which the last reading is stored, in microseconds.
const KEEP_EVERY: i64 = 60_000_000;
/// Time after which a forward jump counts for deletions by age, in microseconds.
const SETTLED_AFTER: i64 = 24 * 3600 * 1_000_000;

/// A reading of both clocks, with the recent jumps. All times are in
/// microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Look {
    /// Wall time since 1970.
    wall: i64,
    /// Time since boot.
    boot: i64,
    /// Identifies the boot of the machine.
    boot_id: String,
    /// Sum of the recent jumps of the wall clock, positive if forward.
    #[serde(default)]
    ahead: i64,
    /// Time since boot of the last jump.
    #[serde(default)]
    jumped: i64,
}

impl Look {
    fn new(reading: &Reading) -> Self {
        Self {
            wall: micros(reading.wall),
            boot: i64::try_from(reading.boot.as_micros()).unwrap_or(i64::MAX),
            boot_id: reading.boot_id.clone(),
            ahead: 0,
            jumped: 0,
        }
    }

    /// Returns this reading with the recent jumps of the last reading added,
    /// and the jump of the wall clock between the two readings (0 if there was
    /// none).
    fn after(self, last: &Self) -> (Self, i64) {
        let is_same_start = self.boot_id == last.boot_id;
        let passed = match is_same_start {
            true => self.boot.saturating_sub(last.boot),
            false => self.boot,
        };
        let jump = (self.wall.saturating_sub(last.wall)).saturating_sub(passed);
        let jump = if jump.abs() > TOLERANCE { jump } else { 0 };
        let (mut ahead, mut jumped) = match is_same_start {
            true => (last.ahead, last.jumped),
            false => (last.ahead, 0),
        };
        if jump != 0 {
            (ahead, jumped) = (ahead.saturating_add(jump), self.boot);
        } else if self.boot.saturating_sub(jumped) > SETTLED_AFTER {
            ahead = 0;
        }
        let look = Self {
            ahead,
            jumped,
            ..self
        };
        (look, jump)
    }

    /// Returns the wall time without recent forward jumps, for deletions by age.
    fn settled(&self) -> i64 {
        self.wall.saturating_sub(self.ahead.max(0))
    }
}

/// Returns the current time for expiries and for deletions by age, and corrects
/// expiry times after a jump of the wall clock. Holds the last reading.
pub(crate) struct Timekeeper {
    clocks: Clocks,
    catalog: Arc<dyn Catalog>,
    last: Mutex<Option<Kept>>,
}

/// The last reading.
#[derive(Debug)]
struct Kept {
    look: Look,
    /// Time since boot at which a reading was last stored in the catalog.
    kept: i64,
}

impl Timekeeper {
    pub(crate) fn new(clocks: Clocks, catalog: Arc<dyn Catalog>) -> Self {
        Self {
            clocks,
            catalog,
            last: Mutex::default(),
        }
    }

    /// Returns the current time, for a comparison with expiry times. After a jump
    /// of the wall clock, moves the expiry times first. Fails if that fails, so
    /// that nothing expires because of the jump.
    pub(crate) async fn now(&self) -> Result<Timestamp> {
        Ok(timestamp(self.look().await?.wall))
    }

    /// Returns the time for deletions by age. A forward jump of the wall clock
    /// counts only after a day, so that a person can correct a wrong clock.
    pub(crate) async fn settled(&self) -> Result<Timestamp> {
        Ok(timestamp(self.look().await?.settled()))
    }

    /// Reads the clocks and compares them with the last reading.
    async fn look(&self) -> Result<Look> {
        let mut last = self.last.lock().await;
        let look = Look::new(&(self.clocks.0)());
        let before = match &*last {
            Some(kept) => Some(kept.look.clone()),
            None => self.kept_look().await?,
        };
        let (look, jump) = match &before {
            Some(before) => look.after(before),
            None => (look, 0),
        };
        let kept = last.as_ref().map(|last| last.kept);
        let is_due = kept.is_none_or(|kept| look.boot.saturating_sub(kept) >= KEEP_EVERY);
        let mut now_kept = kept.unwrap_or(look.boot);
        if jump != 0 {
            self.catalog
                .move_expiry(jump, SETTING, &text(&look)?)
                .await?;
            let seconds = jump / 1_000_000;
            tracing::warn!(
                seconds,
                "the wall clock jumped; all expiry times were moved by the same amount"
            );
            now_kept = look.boot;
        } else if is_due {
            now_kept = look.boot;
            // A failure does no harm now: the next server process then compares
            // with an older reading.
            if let Err(error) = self.catalog.set_setting(SETTING, &text(&look)?).await {
                let cause = crate::failure::chain(&error);
                tracing::warn!(cause, "cannot store the current clock readings");
            }
        }
        *last = Some(Kept {
            look: look.clone(),
            kept: now_kept,
        });
        Ok(look)
    }

    /// Returns the reading that the previous server process has stored.
    async fn kept_look(&self) -> Result<Option<Look>> {
        let kept = self.catalog.setting(SETTING).await?;
        Ok(kept.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

fn text(look: &Look) -> Result<String> {
    serde_json::to_string(look).map_err(|error| Failure::internal(&error))
}

fn micros(time: Timestamp) -> i64 {
    time.seconds() * 1_000_000 + i64::from(time.nanos() / 1000)
}

fn timestamp(micros: i64) -> Timestamp {
    let nanos = micros.rem_euclid(1_000_000) as u32 * 1000;
    Timestamp::new(micros.div_euclid(1_000_000), nanos)
        .unwrap_or_else(|| unreachable!("less than a second of nanoseconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const DAY: i64 = 24 * 3600 * SECOND;

    fn look(wall: i64, boot: i64, boot_id: &str) -> Look {
        Look {
            wall,
            boot,
            boot_id: boot_id.into(),
            ahead: 0,
            jumped: 0,
        }
    }

    #[test]
    fn clocks_that_move_together_do_not_jump() {
        let last = look(100 * DAY, 50, "a");
        for (wall, boot) in [(SECOND, SECOND), (3 * DAY, 3 * DAY), (4 * SECOND, 0)] {
            let next = look(last.wall + wall, last.boot + boot, "a");
            let (next, jump) = next.after(&last);
            assert_eq!((jump, next.settled()), (0, next.wall));
        }
    }

    #[test]
    fn a_jump_is_the_difference_and_is_trusted_after_a_day() {
        let first = look(100 * DAY, 0, "a");
        let (ahead, jump) = look(101 * DAY + SECOND, SECOND, "a").after(&first);
        assert_eq!((jump, ahead.settled()), (DAY, 100 * DAY + SECOND));
        let (back, jump) = look(100 * DAY + 2 * SECOND, 2 * SECOND, "a").after(&ahead);
        assert_eq!((jump, back.settled()), (-DAY, back.wall));
        let (later, jump) = look(ahead.wall + DAY, ahead.boot + DAY, "a").after(&ahead);
        assert_eq!((jump, later.settled()), (0, later.wall - DAY));
        let (later, _) = look(later.wall + SECOND, later.boot + SECOND, "a").after(&later);
        assert_eq!(later.settled(), later.wall);
    }

    #[test]
    fn after_a_start_of_the_machine_only_the_time_since_counts() {
        let last = look(100 * DAY, 40 * DAY, "a");
        let (next, jump) = look(107 * DAY, 60 * SECOND, "b").after(&last);
        assert_eq!(jump, 7 * DAY - 60 * SECOND);
        assert_eq!(next.settled(), 100 * DAY + 60 * SECOND);
        let (_, jump) = look(100 * DAY + 61 * SECOND, 60 * SECOND, "b").after(&last);
        assert_eq!(jump, 0);
    }
}
