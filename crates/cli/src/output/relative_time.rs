//! Times relative to now.

/// A time of the API relative to now: `12 minutes ago`, `in 3 hours`.
pub(crate) fn relative(time: &str) -> String {
    let Ok(time) = time.parse::<jiff::Timestamp>() else {
        return time.to_owned();
    };
    let seconds = time.as_second() - jiff::Timestamp::now().as_second();
    let text = duration(seconds.unsigned_abs());
    match seconds {
        1.. => format!("in {text}"),
        _ => format!("{text} ago"),
    }
}

fn duration(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7200 => (seconds / 60, "minute"),
        7200..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_to_now() {
        for (seconds, text) in [
            (1, "1 second"),
            (119, "119 seconds"),
            (600, "10 minutes"),
            (7200, "2 hours"),
            (864_000, "10 days"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!(relative("nonsense"), "nonsense");
        assert!(relative("2000-01-01T00:00:00Z").ends_with(" days ago"));
    }
}
