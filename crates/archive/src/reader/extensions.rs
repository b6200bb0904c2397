//! Extensions: headers that describe the next entry.

use elevo_core::Timestamp;

use crate::error::{Error, Result};

/// The extensions of the next entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    pub(super) name: Option<Vec<u8>>,
    pub(super) target: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) modified: Option<Timestamp>,
    pub(super) has_attributes: bool,
    /// Whether the name is from PAX, which has precedence.
    is_pax_name: bool,
    is_pax_target: bool,
    is_any: bool,
    sparse: SparseNote,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct SparseNote {
    is_any: bool,
    version: (Option<u64>, Option<u64>),
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

const NO_NUMBER: Error = Error::Malformed("a PAX header has an invalid number");

impl Extensions {
    pub(super) fn is_empty(&self) -> bool {
        !self.is_any
    }

    /// Sets a long name in the format of GNU.
    pub(super) fn set_name(&mut self, content: Vec<u8>) {
        self.is_any = true;
        if !self.is_pax_name {
            self.name = Some(until_nul(content));
        }
    }

    /// Sets a long link target in the format of GNU.
    pub(super) fn set_target(&mut self, content: Vec<u8>) {
        self.is_any = true;
        if !self.is_pax_target {
            self.target = Some(until_nul(content));
        }
    }

    /// Reads records of PAX: `LENGTH KEY=VALUE\n`, where the length counts the
    /// whole record.
    pub(super) fn read_pax(&mut self, records: &[u8]) -> Result<()> {
        self.is_any = true;
        for record in Records(records) {
            let (key, value) = record?;
            self.set(key, value)?;
        }
        if let Some(name) = self.sparse.name.take() {
            self.name = Some(name);
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let number = || decimal(value).ok_or(NO_NUMBER);
        let sparse = &mut self.sparse;
        match key {
            b"path" => {
                self.name = Some(value.into());
                self.is_pax_name = true;
            }
            b"linkpath" => {
                self.target = Some(value.into());
                self.is_pax_target = true;
            }
            b"size" => self.size = Some(number()?),
            b"mtime" => self.modified = Some(time(value).ok_or(NO_NUMBER)?),
            b"GNU.sparse.major" => sparse.version.0 = Some(number()?),
            b"GNU.sparse.minor" => sparse.version.1 = Some(number()?),
            b"GNU.sparse.name" => sparse.name = Some(value.into()),
            b"GNU.sparse.realsize" => sparse.size = Some(number()?),
            _ => {}
        }
        sparse.is_any |= key.starts_with(b"GNU.sparse.");
        self.has_attributes |= is_attribute(key);
        Ok(())
    }

    /// The size of a sparse file of PAX; `None` for any other file.
    pub(super) fn sparse_size(&self, name: &[u8]) -> Result<Option<u64>> {
        if !self.sparse.is_any {
            return Ok(None);
        }
        match (self.sparse.version, self.sparse.size) {
            ((Some(1), Some(0)), Some(size)) => Ok(Some(size)),
            _ => {
                let why = "it is a sparse file in an old format that is not supported";
                Err(Error::refused(name, why))
            }
        }
    }
}

/// Whether the key is an attribute of `star`, GNU tar or libarchive.
fn is_attribute(key: &[u8]) -> bool {
    let prefixes: [&[u8]; 4] = [
        b"SCHILY.xattr.",
        b"SCHILY.acl.",
        b"LIBARCHIVE.xattr.",
        b"RHT.security.",
    ];
    prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// Ignores a header for all entries, but rejects records that programs
/// interpret in different ways.
pub(super) fn check_global(records: &[u8]) -> Result<()> {
    for record in Records(records) {
        let (key, _) = record?;
        let decides = matches!(key, b"path" | b"linkpath" | b"size");
        if decides || key.starts_with(b"GNU.sparse.") {
            let why = "a global header sets one name or size for all entries";
            return Err(Error::Malformed(why));
        }
    }
    Ok(())
}

fn until_nul(mut content: Vec<u8>) -> Vec<u8> {
    if let Some(end) = content.iter().position(|byte| *byte == 0) {
        content.truncate(end);
    }
    content
}

/// A key and its value.
type Record<'a> = (&'a [u8], &'a [u8]);

struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// Returns the next record and the rest.
    fn split(&self) -> Option<(Record<'a>, &'a [u8])> {
        let space = self.0.iter().position(|byte| *byte == b' ')?;
        let length = usize::try_from(decimal(&self.0[..space])?).ok()?;
        let (record, rest) = self.0.split_at_checked(length)?;
        let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|byte| *byte == b'=')?;
        Some(((&record[..equals], &record[equals + 1..]), rest))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        // Some programs pad with NULs.
        if self.0.iter().all(|byte| *byte == 0) {
            return None;
        }
        match self.split() {
            Some((record, rest)) => {
                self.0 = rest;
                Some(Ok(record))
            }
            None => {
                self.0 = &[];
                Some(Err(Error::Malformed("a PAX header cannot be parsed")))
            }
        }
    }
}

pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    text.parse().ok()
}

/// Parses a decimal number of seconds. Digits after the ninth decimal place are
/// ignored.
fn time(value: &[u8]) -> Option<Timestamp> {
    let (is_negative, value) = match value.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let mut parts = value.splitn(2, |byte| *byte == b'.');
    let seconds = i64::try_from(decimal(parts.next()?)?).ok()?;
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nanos = (0..9).fold(0, |nanos, at| {
        nanos * 10 + fraction.get(at).map_or(0, |digit| u32::from(digit - b'0'))
    });
    match (is_negative, nanos) {
        (false, _) => Timestamp::new(seconds, nanos),
        (true, 0) => Timestamp::new(-seconds, 0),
        (true, _) => Timestamp::new(-seconds - 1, 1_000_000_000 - nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_cut_by_their_length() {
        let mut found = Extensions::default();
        found
            .read_pax(b"14 path=a\nb=c\n11 size=42\n19 mtime=-1.250000\n\0\0")
            .unwrap();
        assert_eq!(found.name.as_deref(), Some(&b"a\nb=c"[..]));
        assert_eq!(found.size, Some(42));
        assert_eq!(found.modified, Timestamp::new(-2, 750_000_000));
        for bad in [
            &b"10 path=a\n"[..],
            b"8 path=a\n",
            b"99 path=a\n",
            b"path=a\n",
            b"18446744073709551616 path=a\n",
            b"3 a\n",
            b"11 size=x \n",
            b"12 size=-42\n",
            b"15 mtime=1e100\n",
        ] {
            let read = Extensions::default().read_pax(bad);
            let is_good = bad == b"10 path=a\n";
            assert_eq!(read.is_ok(), is_good, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn times_have_nanoseconds() {
        for (text, seconds, nanos) in [
            ("1", 1, 0),
            ("1.5", 1, 500_000_000),
            ("1.0000000019", 1, 1),
            ("-1", -1, 0),
            ("-0.5", -1, 500_000_000),
        ] {
            assert_eq!(
                time(text.as_bytes()),
                Timestamp::new(seconds, nanos),
                "{text}"
            );
        }
        for bad in ["", "-", ".5", "1.x", "1e3", "99999999999999999999"] {
            assert_eq!(time(bad.as_bytes()), None, "{bad}");
        }
    }
}
