//! The fields of a header.

use elevo_core::Timestamp;
use tar::Header;

use crate::error::{Error, Result};

/// Whether the checksum is right. Accepts the sum of signed bytes as well,
/// which some old programs wrote.
pub(super) fn has_checksum(header: &Header) -> bool {
    let Some(expected) = number(&header.as_old().cksum) else {
        return false;
    };
    let (mut unsigned, mut signed) = (0i64, 0i64);
    for (at, byte) in header.as_bytes().iter().enumerate() {
        // The checksum field itself counts as spaces.
        let byte = if (148..156).contains(&at) {
            b' '
        } else {
            *byte
        };
        unsigned += i64::from(byte);
        signed += i64::from(byte as i8);
    }
    expected == unsigned || expected == signed
}

pub(super) fn size(header: &Header) -> Result<u64> {
    let size = number(&header.as_old().size).and_then(|size| u64::try_from(size).ok());
    size.ok_or(Error::Malformed("a size is not a number"))
}

pub(super) fn mode(header: &Header) -> Result<u32> {
    let mode = number(&header.as_old().mode).ok_or(Error::Malformed("a mode is not a number"))?;
    Ok((mode & 0o7777) as u32)
}

pub(super) fn modified(header: &Header) -> Result<Timestamp> {
    let seconds = number(&header.as_old().mtime);
    let modified = seconds.and_then(|seconds| Timestamp::new(seconds, 0));
    modified.ok_or(Error::Malformed("a time is not a number"))
}

/// Parses a number: octal digits between spaces and NULs, or, if the first bit
/// is set, bytes in two's complement. An empty field is 0.
pub(super) fn number(field: &[u8]) -> Option<i64> {
    match field.first()? {
        0x80 | 0xff => binary(field),
        first if first & 0x80 != 0 => None,
        _ => octal(field),
    }
}

fn binary(field: &[u8]) -> Option<i64> {
    let fill = if field[0] == 0xff { 0xff } else { 0 };
    let (front, last) = field[1..].split_at(field.len().saturating_sub(1 + 8));
    if front.iter().any(|byte| *byte != fill) {
        return None;
    }
    let mut bytes = [fill; 8];
    bytes[8 - last.len()..].copy_from_slice(last);
    let value = i64::from_be_bytes(bytes);
    ((value < 0) == (fill == 0xff)).then_some(value)
}

fn octal(field: &[u8]) -> Option<i64> {
    let is_space = |byte: &u8| *byte == b' ' || *byte == 0;
    let start = field.iter().position(|byte| *byte != b' ');
    let field = &field[start.unwrap_or(field.len())..];
    let end = field.iter().position(is_space).unwrap_or(field.len());
    let (digits, rest) = field.split_at(end);
    // Bytes after the first NUL do not belong to the field.
    let spaces = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    if spaces.iter().any(|byte| *byte != b' ') {
        return None;
    }
    digits.iter().try_fold(0i64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        for (field, value) in [
            (&b"0000644\0"[..], Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"00000644", Some(0o644)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"7\0garbage", Some(7)),
            (b"0000649\0", None),
            (b"12 34\0\0\0", None),
            (b"-1\0", None),
            (b"\x80\0\0\0\0\0\x01\x02", Some(258)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xfe", Some(-2)),
            (
                b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
                Some(i64::MAX),
            ),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", None),
            (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", None),
            (b"\xff\xff\xff\xfe\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\x81\0\0\0\0\0\0\0", None),
            (b"7777777777777777777777777", None),
        ] {
            assert_eq!(number(field), value, "{}", field.escape_ascii());
        }
    }
}
