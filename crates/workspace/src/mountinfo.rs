//! Parses `/proc/PID/mountinfo`, the list of the mounts that a process sees.
//!
//! ```text
//! 65 43 0:39 /root /mount\040point rw,relatime shared:3 - overlay source rw,upperdir=/u
//! id  |  |     |         |             |          |     |    |       |     |
//!   parent|   root      mount       options   optional  |   type   source  options of the
//!       device          point                 fields    end of them        file system
//! ```
//!
//! A line has any number of optional fields, also none. In paths and options
//! the kernel writes a space, a tab, a newline and a backslash as `\` and three
//! octal digits; a path need not be UTF-8. See `proc_pid_mountinfo(5)`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The mounts of a process, the last on top of the others.
#[derive(Debug)]
pub(crate) struct MountTable(Vec<u8>);

/// One line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mount<'a> {
    /// The id that `statx` returns for files in the mount.
    pub(crate) id: u64,
    /// The numbers of the device: equal for all mounts of one file system.
    pub(crate) device: &'a [u8],
    /// Whether mounts below this one propagate to its peers.
    pub(crate) is_shared: bool,
    point: &'a [u8],
    upper: Option<&'a [u8]>,
}

impl MountTable {
    /// Reads the mounts of this process.
    pub(crate) fn of_self() -> io::Result<Self> {
        fs::read("/proc/self/mountinfo").map(Self)
    }

    /// Reads the mounts of the process with the directory `process` in `/proc`,
    /// or those of its threads if its main thread has exited.
    pub(crate) fn of(process: &Path) -> io::Result<Self> {
        if let Ok(mounts) = fs::read(process.join("mountinfo")) {
            return Ok(Self(mounts));
        }
        let mut mounts = Vec::new();
        for task in fs::read_dir(process.join("task"))? {
            mounts.extend(fs::read(task?.path().join("mountinfo")).unwrap_or_default());
        }
        Ok(Self(mounts))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the mounts in the order of the kernel. Lines that are not
    /// complete are left out.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Mount<'_>> {
        self.0.split(|byte| *byte == b'\n').filter_map(Mount::parse)
    }
}

impl<'a> Mount<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let _parent = fields.next()?;
        let device = fields.next()?;
        let _root = fields.next()?;
        let point = fields.next()?;
        let _options = fields.next()?;
        let mut is_shared = false;
        // A file system can name its source `shared:1`, so the search ends at
        // the dash.
        loop {
            match fields.next()? {
                b"-" => break,
                field => is_shared |= field.starts_with(b"shared:"),
            }
        }
        let file_system = fields.next()?;
        let _source = fields.next()?;
        let mut options = fields.next()?.split(|byte| *byte == b',');
        // Other file systems may have an option of the same name.
        let upper = match file_system {
            b"overlay" => options.find_map(|option| option.strip_prefix(b"upperdir=")),
            _ => None,
        };
        Some(Self {
            id,
            device,
            is_shared,
            point,
            upper,
        })
    }

    /// The directory that it is mounted on.
    pub(crate) fn point(&self) -> PathBuf {
        path(self.point)
    }

    /// The directory in which an overlay keeps its changes.
    pub(crate) fn upper(&self) -> Option<PathBuf> {
        self.upper.map(path)
    }
}

fn path(escaped: &[u8]) -> PathBuf {
    OsString::from_vec(unescaped(escaped)).into()
}

/// Replaces each escape, which is a `\` and three octal digits, by the byte
/// that the digits stand for.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let escaped = digits.and_then(octal);
        plain.push(escaped.unwrap_or(byte));
        rest = match escaped {
            Some(_) => &after[3..],
            None => after,
        };
    }
    plain
}

/// Returns the byte that octal digits stand for, if they are digits of a byte.
fn octal(digits: &[u8]) -> Option<u8> {
    // `from_str_radix` accepts a sign.
    let are_digits = digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
    let digits = std::str::from_utf8(digits).ok().filter(|_| are_digits)?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    const OVERLAY: &[u8] = br"65 43 0:39 / /a\040b/files rw,relatime shared:3 - overlay overlay rw,lowerdir=/l,upperdir=/a\040b/upper,workdir=/w,userxattr";

    #[test]
    fn parses_an_overlay_with_spaces_in_its_paths() {
        let mount = Mount::parse(OVERLAY).unwrap();
        assert_eq!(mount.id, 65);
        assert_eq!(mount.device, b"0:39");
        assert_eq!(mount.point(), Path::new("/a b/files"));
        assert_eq!(mount.upper().unwrap(), Path::new("/a b/upper"));
    }

    #[test]
    fn only_an_overlay_has_an_upper() {
        let line = b"65 43 0:39 / /upper rw - ext4 /dev/vda rw,upperdir=/upper";
        assert_eq!(Mount::parse(line).unwrap().upper(), None);
        let line = b"65 43 0:39 / /upper rw - overlay overlay rw,lowerdir=/upperdir=/l";
        assert_eq!(Mount::parse(line).unwrap().upper(), None);
    }

    #[test]
    fn optional_fields_are_none_or_many() {
        let is_shared = |line: &str| Mount::parse(line.as_bytes()).unwrap().is_shared;
        let end = "- ext4 /dev/vda rw";
        assert!(is_shared(&format!(
            "71 44 254:0 /a /b rw shared:2 master:1 {end}"
        )));
        assert!(is_shared(&format!(
            "71 44 254:0 /a /b rw master:1 shared:2 {end}"
        )));
        assert!(!is_shared(&format!(
            "72 44 254:0 /a /b rw,relatime master:2 {end}"
        )));
        assert!(!is_shared(&format!("72 44 254:0 /a /b rw {end}")));
        assert!(!is_shared(
            "72 44 254:0 /a /b rw master:2 - ext4 shared:9 rw"
        ));
    }

    #[test]
    fn a_source_may_be_empty() {
        let line = b"65 43 0:39 / /files rw - overlay  rw,upperdir=/upper";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.upper().unwrap(), Path::new("/upper"));
    }

    #[test]
    fn a_truncated_line_is_left_out() {
        let fields: Vec<_> = OVERLAY.split(|byte| *byte == b' ').collect();
        for count in 0..fields.len() {
            let line = fields[..count].join(&b' ');
            assert_eq!(Mount::parse(&line), None, "{count} fields");
        }
        let table = MountTable([OVERLAY, b"\n66 43 0:40 / /cut\n", OVERLAY, b"\n"].concat());
        assert_eq!(table.iter().count(), 2);
    }

    #[test]
    fn an_escape_needs_three_octal_digits() {
        assert_eq!(unescaped(br"\134\\0"), br"\\\0");
        assert_eq!(unescaped(br"\011\012\040\134"), b"\t\n \\");
        assert_eq!(unescaped(br"\04"), br"\04");
        assert_eq!(unescaped(br"\089"), br"\089");
        assert_eq!(unescaped(br"\+12"), br"\+12");
        // The number is too large for a byte.
        assert_eq!(unescaped(br"\777"), br"\777");
    }

    #[test]
    fn a_path_need_not_be_utf_8() {
        let line = b"65 43 0:39 / /\xff\xfe rw - tmpfs none rw";
        let point = Mount::parse(line).unwrap().point();
        assert_eq!(point.as_os_str(), OsStr::from_bytes(b"/\xff\xfe"));
    }

    #[test]
    fn this_process_has_a_root() {
        let table = MountTable::of_self().unwrap();
        assert!(table.iter().any(|mount| mount.point() == Path::new("/")));
        let same = MountTable::of(Path::new("/proc/self")).unwrap();
        assert_eq!(same.iter().count(), table.iter().count());
    }
}
