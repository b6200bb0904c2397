//! The only place that reads the clock and random numbers.

#![allow(
    clippy::disallowed_methods,
    reason = "the clock and random numbers enter here"
)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use elevo_core::{Id, Timestamp, id_text};
use rand::RngExt;

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    timestamp(since)
}

/// Returns the current time for comparison with times of files.
pub(crate) fn system() -> SystemTime {
    SystemTime::now()
}

/// Returns the current instant, to measure durations.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Returns the current time in milliseconds since 1970.
pub(crate) fn millis() -> i64 {
    let now = now();
    now.seconds() * 1000 + i64::from(now.nanos() / 1_000_000)
}

/// Returns `time` plus the whole seconds of `duration`.
pub(crate) fn after(time: Timestamp, duration: Duration) -> Timestamp {
    let seconds = time
        .seconds()
        .saturating_add(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX));
    Timestamp::new(seconds, time.nanos()).unwrap_or(time)
}

/// Formats a time by RFC 3339, to the millisecond.
pub(crate) fn text(time: Timestamp) -> String {
    let time = jiff::Timestamp::new(time.seconds(), time.nanos() as i32);
    let time = time.unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// Formats a time in microseconds since 1970 in the form of [`text`].
pub(crate) fn text_of_micros(micros: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(micros);
    format!("{:.3}", time.unwrap_or(jiff::Timestamp::MAX))
}

/// Formats a time in milliseconds since 1970 in the form of [`text`].
pub(crate) fn text_of_millis(millis: i64) -> String {
    text_of_micros(millis.saturating_mul(1000))
}

/// Returns the time left until `time`; zero if it has passed.
pub(crate) fn until(time: Timestamp) -> Duration {
    let micros = |time: Timestamp| time.seconds() * 1_000_000 + i64::from(time.nanos() / 1000);
    let left = micros(time).saturating_sub(micros(now()));
    Duration::from_micros(u64::try_from(left).unwrap_or_default())
}

/// Returns `time` minus the whole seconds of `duration`.
pub(crate) fn before(time: Timestamp, duration: Duration) -> Timestamp {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let seconds = time.seconds().saturating_sub(seconds);
    Timestamp::new(seconds, time.nanos()).unwrap_or(time)
}

/// Parses a time by RFC 3339.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
    let seconds = time.as_nanosecond().div_euclid(1_000_000_000);
    Timestamp::new(seconds.try_into().ok()?, nanos.try_into().ok()?)
}

fn timestamp(since: Duration) -> Timestamp {
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp::new(seconds, since.subsec_nanos())
        .unwrap_or_else(|| unreachable!("nanoseconds of a duration are below a second"))
}

/// Returns random bytes, suitable for secrets.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill(&mut bytes);
    bytes
}

/// Returns a new id with 80 random bits.
pub(crate) fn id<T: Id>() -> T {
    T::from_bytes(&random())
}

/// Returns a prefix and 80 random bits as lowercase letters and digits.
pub(crate) fn name(prefix: &str) -> String {
    id_text(prefix, &random())
}

/// A reading of the machine's clocks at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The wall clock, which can be set.
    pub wall: Timestamp,
    /// The time since boot, including sleep.
    pub boot: Duration,
    /// Identifies the boot.
    pub boot_id: String,
}

/// Reads the clocks that decide what has expired. Tests replace it.
#[derive(Clone)]
pub struct Clocks(pub std::sync::Arc<dyn Fn() -> Reading + Send + Sync>);

impl std::fmt::Debug for Clocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clocks")
    }
}

impl Default for Clocks {
    /// The clocks of this machine.
    fn default() -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let boot_id = boot_id.unwrap_or_default().trim().to_owned();
        Self(std::sync::Arc::new(move || Reading {
            wall: now(),
            boot: since_boot(),
            boot_id: boot_id.clone(),
        }))
    }
}

/// Returns the time since boot to the second, which is enough to find a jump.
fn since_boot() -> Duration {
    let uptime = rustix::system::sysinfo().uptime;
    Duration::from_secs(u64::try_from(uptime).unwrap_or_default())
}
