//! Durations in arguments: a number with the unit `s`, `m`, `h` or `d`.

/// Parses a duration in seconds; a number without a unit has seconds.
pub(crate) fn seconds(text: &str) -> Result<u32, String> {
    parse(text, 1)
}

/// Parses a duration in milliseconds; a number without a unit has milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<u32, String> {
    parse(text, 1000)
}

/// Parses a duration in a unit of which there are `per_second` in a second.
fn parse(text: &str, per_second: u32) -> Result<u32, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let with_unit = units.iter().find_map(|(unit, seconds)| {
        let number = text.strip_suffix(unit)?;
        Some((number, seconds * per_second))
    });
    let (number, factor) = with_unit.unwrap_or((text, 1));
    let number = number
        .parse::<u32>()
        .map_err(|_| "write a whole number, or one with s, m, h or d: 90, 5m, 1h".to_owned())?;
    number
        .checked_mul(factor)
        .ok_or_else(|| format!("`{text}` is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_have_a_unit() {
        for (text, expected) in [
            ("0", 0),
            ("90", 90),
            ("30s", 30),
            ("5m", 300),
            ("7d", 604_800),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        assert_eq!(milliseconds("1500"), Ok(1500));
        assert_eq!(milliseconds("2m"), Ok(120_000));
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in ["", "h", "-1", "1.5h", "1 h", "1w", "99999999d"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
