/// The text is not a valid size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSize(pub String);

impl std::fmt::Display for InvalidSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidSize {}

/// Parses a number of bytes such as `512m`, `2g` or `1048576`.
pub fn parse_size(text: &str) -> Result<u64, InvalidSize> {
    let invalid = || InvalidSize(format!("`{text}` is not a size such as 512m or 2g"));
    let lower = text.trim().to_ascii_lowercase();
    let lower = lower
        .strip_suffix("ib")
        .or(lower.strip_suffix('b'))
        .unwrap_or(&lower);
    let (digits, shift) = match lower.as_bytes().last() {
        Some(b'k') => (&lower[..lower.len() - 1], 10),
        Some(b'm') => (&lower[..lower.len() - 1], 20),
        Some(b'g') => (&lower[..lower.len() - 1], 30),
        Some(b't') => (&lower[..lower.len() - 1], 40),
        _ => (lower, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    let number: u64 = digits.parse().map_err(|_| invalid())?;
    number.checked_mul(1 << shift).ok_or_else(invalid)
}

/// Parses a limit in bytes, which is a size of at least 1 byte.
pub fn parse_limit(text: &str) -> Result<u64, InvalidSize> {
    match parse_size(text)? {
        0 => Err(InvalidSize(format!("`{text}` is less than 1 byte"))),
        bytes => Ok(bytes),
    }
}

/// Returns the shortest text that [`parse_size`] reads as `bytes`.
pub fn format_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "t"), (30, "g"), (20, "m"), (10, "k")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Parses thousandths of a processor from text such as `2` or `0.5`.
pub fn parse_cpu(text: &str) -> Result<u32, InvalidSize> {
    let invalid = || {
        InvalidSize(format!(
            "`{text}` is not a number of processors such as 2 or 0.5"
        ))
    };
    let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > 3 {
        return Err(invalid());
    }
    let whole: u32 = whole.parse().map_err(|_| invalid())?;
    let part: u32 = format!("{part:0<3}").parse().map_err(|_| invalid())?;
    let millis = whole
        .checked_mul(1000)
        .and_then(|whole| whole.checked_add(part));
    millis.filter(|millis| *millis > 0).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_have_an_optional_unit() {
        for (text, bytes) in [
            ("512m", 512 << 20),
            ("2g", 2 << 30),
            ("2GiB", 2 << 30),
            ("3MB", 3 << 20),
            ("7", 7),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "m",
            "-1",
            "1.5g",
            "9x",
            "99999999999999999999",
            "9999999999t",
            "1 g",
            "é",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_is_at_least_one_byte() {
        assert_eq!(parse_limit("1"), Ok(1));
        for text in ["0", "0g", "", "1 g"] {
            assert!(parse_limit(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_formatted_size_parses_to_the_same_size(number: u64, shift in 0_u32..64) {
            for bytes in [number >> shift, number << shift] {
                prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
            }
        }
    }

    #[test]
    fn processors_are_parsed() {
        for (text, millis) in [("2", 2000), ("0.5", 500), ("1.25", 1250), ("0.001", 1)] {
            assert_eq!(parse_cpu(text), Ok(millis), "{text}");
        }
        for text in ["", "0", ".5", "1.2345", "-1", "two", "1e3", "99999999999"] {
            assert!(parse_cpu(text).is_err(), "{text}");
        }
    }
}
