//! Bounds on single values, and their stored forms.

use std::borrow::Cow;
use std::time::Duration;

use elevo_core::Timestamp;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::limits::{MAX_NAME_BYTES, MAX_PAGE, MAX_REASON_BYTES, MAX_TEXT_BYTES, MAX_WORDS};
use crate::nodes::ServerSession;

/// Returns the stored form of JSON.
pub(crate) fn json(what: &str, value: &Value, limit: usize) -> Result<String> {
    let json = value.to_string();
    if json.len() > limit {
        return refuse(format!("{what} can have at most {limit} bytes"));
    }
    Ok(json)
}

/// Returns the stored form of a number.
pub(crate) fn number(what: &str, number: u64) -> Result<i64> {
    i64::try_from(number).or_else(|_| refuse(format!("{what} is too large")))
}

/// Returns the stored form of a reason. A reason that does not fit is changed,
/// not rejected: it often quotes text from outside, and the state that it
/// explains must be recorded.
pub(crate) fn reason(reason: &str) -> Cow<'_, str> {
    let cut = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
    if cut.contains('\0') {
        Cow::Owned(cut.replace('\0', "?"))
    } else {
        Cow::Borrowed(cut)
    }
}

/// Returns the stored form of a time: whole microseconds since 1970, truncated.
pub(crate) fn micros(time: Timestamp) -> Result<i64> {
    let seconds = time.seconds().checked_mul(1_000_000);
    let micros = seconds.and_then(|micros| micros.checked_add(i64::from(time.nanos() / 1000)));
    micros.map_or_else(|| refuse("a time is out of bounds"), Ok)
}

/// Returns the stored form of the time `duration` after a time.
pub(crate) fn micros_after(time: Timestamp, duration: Duration) -> Result<i64> {
    let duration = i64::try_from(duration.as_micros()).ok();
    let sum = duration.and_then(|duration| micros(time).ok()?.checked_add(duration));
    sum.map_or_else(|| refuse("a time is out of bounds"), Ok)
}

/// Returns the stored form of a session.
pub(crate) fn session(session: ServerSession) -> Result<i64> {
    number("a session", session.0)
}

/// Returns a time as it is read back after it was stored.
pub(crate) fn truncated(time: Timestamp) -> Timestamp {
    let nanos = time.nanos() / 1000 * 1000;
    Timestamp::new(time.seconds(), nanos).expect("fewer nanoseconds than before")
}

/// Checks a name: 1 to [`MAX_NAME_BYTES`], no NUL.
pub(crate) fn name(what: &str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        return refuse(format!("{what} must have 1 to {MAX_NAME_BYTES} bytes"));
    }
    nul(what, text)
}

/// Checks a text: at most [`MAX_TEXT_BYTES`], no NUL.
pub(crate) fn text(what: &str, text: &str) -> Result<()> {
    if text.len() > MAX_TEXT_BYTES {
        return refuse(format!("{what} can have at most {MAX_TEXT_BYTES} bytes"));
    }
    nul(what, text)
}

pub(crate) fn words(what: &str, words: &[String]) -> Result<()> {
    if words.len() > MAX_WORDS {
        return refuse(format!("there can be at most {MAX_WORDS} {what}"));
    }
    words.iter().try_for_each(|word| name(what, word))
}

/// Rejects NUL, which not every database can store in a text.
pub(crate) fn nul(what: &str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return refuse(format!("{what} cannot contain NUL"));
    }
    Ok(())
}

pub(crate) fn refuse<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Refused(why.into()))
}

pub(crate) fn limit(limit: u32) -> Result<()> {
    if limit == 0 || limit > MAX_PAGE {
        return refuse(format!("the limit of a list must be 1 to {MAX_PAGE}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_truncated_between_characters() {
        let long = "ä".repeat(MAX_REASON_BYTES);
        assert_eq!(reason(&long).len(), MAX_REASON_BYTES);
        let odd = format!("x{long}");
        assert_eq!(reason(&odd).len(), MAX_REASON_BYTES - 1);
        assert_eq!(reason("a\0b"), "a?b");
    }

    #[test]
    fn a_truncated_time_is_never_later() {
        let time = |seconds, nanos| Timestamp::new(seconds, nanos).unwrap();
        assert_eq!(micros(time(-1, 999_999_999)).unwrap(), -1);
        assert_eq!(micros(time(1, 1_999)).unwrap(), 1_000_001);
        assert!(micros(time(i64::MAX, 0)).is_err());
        assert!(micros(time(i64::MIN, 0)).is_err());
    }
}
