//! Where the clock and random numbers enter.

#![allow(
    clippy::disallowed_methods,
    reason = "the clock and random numbers enter here"
)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use elevo_core::Timestamp;
use rand::RngExt;

/// The present time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    timestamp(since)
}

/// The same for times of files.
pub(crate) fn system() -> SystemTime {
    SystemTime::now()
}

/// For durations.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970.
pub(crate) fn millis() -> i64 {
    let now = now();
    now.seconds() * 1000 + i64::from(now.nanos() / 1_000_000)
}

/// A time some seconds after another.
pub(crate) fn after(time: Timestamp, duration: Duration) -> Timestamp {
    let seconds = time
        .seconds()
        .saturating_add(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX));
    Timestamp::new(seconds, time.nanos()).unwrap_or(time)
}

/// As RFC 3339 has it, to the millisecond.
pub(crate) fn text(time: Timestamp) -> String {
    let time = jiff::Timestamp::new(time.seconds(), time.nanos() as i32);
    let time = time.unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// The same of microseconds since 1970.
pub(crate) fn text_of_micros(micros: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(micros);
    format!("{:.3}", time.unwrap_or(jiff::Timestamp::MAX))
}

/// Time that is left until another; none if that is over.
pub(crate) fn until(time: Timestamp) -> Duration {
    let micros = |time: Timestamp| time.seconds() * 1_000_000 + i64::from(time.nanos() / 1000);
    let left = micros(time).saturating_sub(micros(now()));
    Duration::from_micros(u64::try_from(left).unwrap_or_default())
}

/// A time some seconds before another.
pub(crate) fn before(time: Timestamp, duration: Duration) -> Timestamp {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let seconds = time.seconds().saturating_sub(seconds);
    Timestamp::new(seconds, time.nanos()).unwrap_or(time)
}

/// A time that RFC 3339 text names.
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

/// Random bytes, fit for secrets.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill(&mut bytes);
    bytes
}

const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const ID_LETTERS: usize = 16;

/// A new id: a prefix, and 80 random bits as small letters and digits.
pub(crate) fn id(prefix: &str) -> String {
    id_of(prefix, &random())
}

/// The id that these bytes stand for.
pub(crate) fn id_of(prefix: &str, bytes: &[u8; ID_LETTERS]) -> String {
    let letters = bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
    std::iter::once(prefix.to_owned())
        .chain(letters.map(String::from))
        .collect()
}

/// Whether [`id`] could have made this.
pub(crate) fn is_id(prefix: &str, text: &str) -> bool {
    let letters = text.strip_prefix(prefix).unwrap_or_default();
    letters.len() == ID_LETTERS && letters.bytes().all(|letter| LETTERS.contains(&letter))
}

/// A reading of the machine's clocks at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The wall clock, which can be set.
    pub wall: Timestamp,
    /// The time since the machine started, also while it slept.
    pub boot: Duration,
    /// A name for this start of the machine.
    pub boot_id: String,
}

/// Reads the clocks that decide what has expired. Tests set their own.
#[derive(Clone)]
pub struct Clocks(pub std::sync::Arc<dyn Fn() -> Reading + Send + Sync>);

impl std::fmt::Debug for Clocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clocks")
    }
}

impl Default for Clocks {
    /// Those of this machine.
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

/// To the second, which is enough to find a jump.
fn since_boot() -> Duration {
    let uptime = rustix::system::sysinfo().uptime;
    Duration::from_secs(u64::try_from(uptime).unwrap_or_default())
}
