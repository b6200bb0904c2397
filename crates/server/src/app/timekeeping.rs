//! The clock that decides what has expired.
//!
//! Expiry times are stored as wall time, which can jump: a wrong real-time
//! clock, a step of NTP, a machine that was paused. The time since boot does
//! not jump. Each reading compares how far both clocks have moved since the
//! last one. If the wall clock moved further, or less far, every expiry time is
//! moved by the difference before anything is compared with it. So a sandbox
//! with an hour left still has an hour left.
//!
//! The last reading is stored in the catalog for the next server. If the
//! machine was rebooted in between, only the time since boot is known to have
//! passed; time in which the machine was off does not count.

use std::sync::Arc;

use elevo_catalog::Catalog;
use elevo_core::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::failure::{Failure, Result};
use crate::platform::clock::{Clocks, Reading};

/// The setting that stores the last reading.
const SETTING: &str = "clock.last";
/// Maximum difference of the clocks between two readings. NTP slews by less.
const TOLERANCE: i64 = 5_000_000;
/// Interval at which the last reading is stored.
const KEEP_EVERY: i64 = 60_000_000;
/// Time after a forward jump in which nothing is deleted by age because of it.
const SETTLED_AFTER: i64 = 24 * 3600 * 1_000_000;

/// A reading of the clocks. All times are microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Look {
    /// Since 1970.
    wall: i64,
    /// Since boot.
    boot: i64,
    /// Identifies the boot.
    boot_id: String,
    /// Recent jumps of the wall clock in all, positive if forward.
    #[serde(default)]
    ahead: i64,
    /// Time of the last jump, since boot.
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

    /// Returns this reading with the jumps of the last one, and how far the
    /// wall clock jumped in between.
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

    /// Returns the time that deletions by age are based on.
    fn settled(&self) -> i64 {
        self.wall.saturating_sub(self.ahead.max(0))
    }
}

/// The clocks, and their last reading.
pub(crate) struct Timekeeper {
    clocks: Clocks,
    catalog: Arc<dyn Catalog>,
    last: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    look: Look,
    /// When a reading was last stored in the catalog, since boot.
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

    /// Returns the current time, to compare with expiry times, which are
    /// corrected first. Fails if a jump cannot be recorded, so that nothing
    /// expires because of it.
    pub(crate) async fn now(&self) -> Result<Timestamp> {
        Ok(timestamp(self.look().await?.wall))
    }

    /// Returns the time that deletions by age are based on. A forward jump
    /// counts only after a day, in which a wrong clock can be corrected.
    pub(crate) async fn settled(&self) -> Result<Timestamp> {
        Ok(timestamp(self.look().await?.settled()))
    }

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
                "the wall clock jumped; every expiry time moves along"
            );
            now_kept = look.boot;
        } else if is_due {
            now_kept = look.boot;
            // Only a convenience for the next server.
            if let Err(error) = self.catalog.set_setting(SETTING, &text(&look)?).await {
                let cause = crate::failure::chain(&error);
                tracing::warn!(cause, "cannot store the time");
            }
        }
        *last = Some(Kept {
            look: look.clone(),
            kept: now_kept,
        });
        Ok(look)
    }

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
