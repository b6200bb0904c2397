//! Formats numbers, times, modes and names for people.

use std::borrow::Cow;

use elevo_core::Timestamp;
use elevo_engine::{EntryKind, quoted};
use elevo_objects::{Mode, SnapshotId};
use indicatif::{BinaryBytes, HumanCount};

/// Digits of a snapshot's id that are shown to people.
const SHORT: usize = 12;

/// The first digits of a snapshot's id.
pub(crate) fn short(id: SnapshotId) -> String {
    let mut text = id.to_string();
    text.truncate(SHORT);
    text
}

/// The first digits of an id that is a string.
pub(crate) fn short_text(id: &str) -> String {
    first_line(id).chars().take(SHORT).collect()
}

/// The prefix of an id and its first 8 letters, which a command accepts: `rev-6smieyru`.
pub(crate) fn short_id(id: &str) -> String {
    let id = first_line(id);
    let prefix = id.find('-').map_or(0, |dash| dash + 1);
    id.chars().take(prefix + 8).collect()
}

/// `1.5 MiB`
pub(crate) fn bytes(count: u64) -> String {
    match count {
        1 => "1 byte".into(),
        0..1024 => format!("{count} bytes"),
        _ => BinaryBytes(count).to_string(),
    }
}

/// `1,234 entries`
pub(crate) fn count(count: u64, one: &str, many: &str) -> String {
    let word = if count == 1 { one } else { many };
    format!("{} {word}", HumanCount(count))
}

/// `3 entries, 1.5 MiB`
pub(crate) fn totals(entries: u64, size: u64) -> String {
    format!("{}, {}", count(entries, "entry", "entries"), bytes(size))
}

/// `0644`
pub(crate) fn mode(mode: Mode) -> String {
    format!("{:04o}", mode.bits())
}

/// `drwxr-xr-x`
pub(crate) fn mode_letters(kind: EntryKind, mode: Mode) -> String {
    let first = match kind {
        EntryKind::File => '-',
        EntryKind::Directory => 'd',
        EntryKind::Link => 'l',
    };
    let bits = (0_u32..9).rev().zip("rwxrwxrwx".chars());
    let letter = |(bit, letter)| match mode.bits() >> bit & 1 {
        0 => '-',
        _ => letter,
    };
    std::iter::once(first).chain(bits.map(letter)).collect()
}

/// The name of an entry's kind.
pub(crate) fn kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Link => "link",
    }
}

/// A path that is safe to print. Appends a slash to a directory.
pub(crate) fn path(path: &[u8], kind: EntryKind) -> Vec<u8> {
    let path = match kind {
        EntryKind::Directory => Cow::Owned([path, b"/"].concat()),
        _ => Cow::Borrowed(path),
    };
    quoted(&path).into_owned()
}

/// A path that is safe to print, as a string for messages.
pub(crate) fn path_text(path: &[u8]) -> String {
    String::from_utf8_lossy(&quoted(path)).into_owned()
}

/// Replaces control characters in untrusted text, so that it cannot control the
/// terminal.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| c.is_control() && c != '\n' && c != '\t';
    match text.contains(harmful) {
        true => Cow::Owned(text.replace(harmful, "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

/// The first line of untrusted text, without control characters.
pub(crate) fn first_line(text: &str) -> Cow<'_, str> {
    harmless(text.trim_start().lines().next().unwrap_or_default())
}

/// `2026-11-15T00:56:24.123456789Z`; `@SECONDS` beyond the year 9999.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    match to_jiff(time) {
        Some(time) => time.to_string(),
        None => format!("@{}", time.seconds()),
    }
}

/// `2026-11-15 00:56:24 +0000`, in the user's time zone.
pub(crate) fn local(time: Timestamp) -> String {
    in_format(time, "%Y-%m-%d %H:%M:%S %z")
}

/// `2026-11-15 00:56`, in the user's time zone.
pub(crate) fn local_brief(time: Timestamp) -> String {
    in_format(time, "%Y-%m-%d %H:%M")
}

fn in_format(time: Timestamp, format: &str) -> String {
    match to_jiff(time) {
        Some(time) => {
            let zone = jiff::tz::TimeZone::system();
            time.to_zoned(zone).strftime(format).to_string()
        }
        None => format!("@{}", time.seconds()),
    }
}

fn to_jiff(time: Timestamp) -> Option<jiff::Timestamp> {
    // Both types count nanoseconds forward from the second, also before 1970.
    let nanos = i32::try_from(time.nanos()).ok()?;
    jiff::Timestamp::new(time.seconds(), nanos).ok()
}

/// The time now.
pub(crate) fn now() -> Timestamp {
    let now = jiff::Timestamp::now();
    let nanos = now.as_nanosecond();
    let (seconds, nanos) = (
        nanos.div_euclid(1_000_000_000),
        nanos.rem_euclid(1_000_000_000),
    );
    Timestamp::new(seconds as i64, nanos as u32)
        .unwrap_or_else(|| unreachable!("the remainder is below a second"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_and_beyond_9999_have_a_text() {
        let time = |seconds, nanos| rfc3339(Timestamp::new(seconds, nanos).unwrap());
        assert_eq!(time(-1, 500_000_000), "1969-12-31T23:59:59.5Z");
        assert_eq!(time(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(time(i64::MAX, 1), "@9223372036854775807");
    }

    #[test]
    fn untrusted_text_cannot_control_the_terminal() {
        assert_eq!(
            harmless("a\x1b[31mb\u{9b}c\n\td"),
            "a\u{fffd}[31mb\u{fffd}c\n\td"
        );
        assert_eq!(first_line("\n one\x07\r\ntwo"), "one\u{fffd}");
    }

    #[test]
    fn modes_are_written_as_ls_does() {
        let letters = mode_letters(EntryKind::Directory, Mode::from_bits(0o754));
        assert_eq!(letters, "drwxr-xr--");
    }
}
