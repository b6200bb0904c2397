//! The file that makes a directory a backup:
//!
//! ```text
//! elevo backup 1
//! <BLAKE3 of the file's bytes> <size> <name>      a line for each file in db/
//! <BLAKE3 of all lines before>
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::Path;

use blake3::Hash;

use super::BackupError;
use crate::open::OpenError;

const FILE: &str = "BACKUP";
/// The format that this code reads and writes. It also grows with the format of
/// the store.
const FORMAT: u32 = 1;
const WORDS: &str = "elevo backup ";
/// Maximum size of a list: some million files.
const LARGEST: u64 = 256 << 20;
/// Maximum size of the first line.
const MAX_FIRST: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedFile {
    pub(crate) size: u64,
    pub(crate) hash: Hash,
}

/// The files of a backup.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FileList(BTreeMap<String, ListedFile>);

/// Whether this directory itself is a backup.
pub(crate) fn is_backup(path: &Path) -> bool {
    path.join(FILE).is_file()
}

/// Fails if a newer version of Elevo made the backup in `path`.
pub(crate) fn check_format(path: &Path) -> Result<(), OpenError> {
    let mut first = Vec::new();
    let read = File::open(path.join(FILE))
        .and_then(|file| BufReader::new(file.take(MAX_FIRST)).read_until(b'\n', &mut first));
    read.map_err(|error| OpenError::io(path, error))?;
    let version = str::from_utf8(&first).ok().and_then(|line| {
        let version = line.strip_prefix(WORDS)?.strip_suffix('\n')?;
        version.parse().ok()
    });
    match version {
        Some(found) if found > FORMAT => Err(OpenError::NewerBackup {
            path: path.into(),
            found,
            supported: FORMAT,
        }),
        // The hash at the end of the list shows whether the line is damaged.
        _ => Ok(()),
    }
}

impl FileList {
    pub(super) fn add(&mut self, name: String, file: ListedFile) {
        self.0.insert(name, file);
    }

    pub(super) fn get(&self, name: &str) -> Option<&ListedFile> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ListedFile)> {
        self.0.iter().map(|(name, file)| (name.as_str(), file))
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        let sizes = self.0.values().map(|file| file.size);
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns the list of the backup in `path`.
    pub(super) fn read(path: &Path) -> Result<Self, BackupError> {
        let file = path.join(FILE);
        let mut text = String::new();
        let read = File::open(&file).and_then(|file| file.take(LARGEST).read_to_string(&mut text));
        match read {
            Err(error) if super::is_absent(&error) => {
                return Err(BackupError::NotABackup { path: path.into() });
            }
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                return Err(BackupError::io("read", &file)(error));
            }
            _ => {}
        }
        check_format(path)?;
        Self::parse(&text).ok_or_else(|| BackupError::Damaged {
            path: path.into(),
            file: FILE.into(),
        })
    }

    /// Makes `path` a backup; durable except for the directory itself.
    pub(super) fn write(&self, path: &Path) -> Result<(), BackupError> {
        let file = path.join(FILE);
        let written = File::create_new(&file).and_then(|mut file| {
            file.write_all(self.text().as_bytes())?;
            file.sync_all()
        });
        written.map_err(BackupError::io("write", &file))
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{WORDS}{FORMAT}\n");
        for (name, ListedFile { size, hash }) in self.iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{hash} {size} {name}");
        }
        let hash = blake3::hash(text.as_bytes());
        text + &format!("{hash}\n")
    }

    /// Accepts only the output of [`Self::text`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let body = text.strip_suffix('\n')?;
        let (_, last) = body.rsplit_once('\n')?;
        let lines = &text[..body.len() - last.len()];
        if last.parse::<Hash>().ok()? != blake3::hash(lines.as_bytes()) {
            return None;
        }
        let mut list = Self::default();
        let mut lines = lines.lines();
        lines.next()?;
        for line in lines {
            let mut words = line.splitn(3, ' ');
            let hash = words.next()?.parse().ok()?;
            let size = words.next()?.parse().ok()?;
            let name = words.next()?;
            let is_plain = !name.contains(['/', '\0']) && !matches!(name, "" | "." | "..");
            is_plain.then(|| list.add(name.into(), ListedFile { size, hash }))?;
        }
        (list.text() == text).then_some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> FileList {
        let mut list = FileList::default();
        for (name, size) in [("CURRENT", 16), ("000012.sst", 4711), ("000013.blob", 0)] {
            let hash = blake3::hash(name.as_bytes());
            list.add(name.into(), ListedFile { size, hash });
        }
        list
    }

    #[test]
    fn a_list_reads_back() {
        for list in [FileList::default(), sample()] {
            assert_eq!(FileList::parse(&list.text()), Some(list));
        }
    }

    #[test]
    fn a_list_with_a_flipped_bit_or_cut_off_is_rejected() {
        let text = sample().text();
        for at in 0..text.len() {
            assert_eq!(FileList::parse(&text[..at]), None, "cut at {at}");
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let flipped = String::from_utf8(bytes).unwrap();
                assert_eq!(FileList::parse(&flipped), None, "bit {bit} of {at}");
            }
        }
    }

    #[test]
    fn a_list_is_written_in_one_way_only() {
        let hash = blake3::hash(b"");
        let line = |size: &str, name: &str| format!("{hash} {size} {name}\n");
        let sealed = |lines: &str| {
            let text = format!("{WORDS}{FORMAT}\n{lines}");
            let hash = blake3::hash(text.as_bytes());
            text + &format!("{hash}\n")
        };
        let both = line("1", "a") + &line("2", "b");
        assert!(FileList::parse(&sealed(&both)).is_some());
        let backwards = line("2", "b") + &line("1", "a");
        let twice = line("1", "a") + &line("2", "a");
        for other in [&backwards, &twice, &line("+1", "a"), &line("01", "a")] {
            assert_eq!(FileList::parse(&sealed(other)), None, "{other}");
        }
    }

    #[test]
    fn huge_sizes_are_added_without_overflow() {
        let mut list = sample();
        let (size, hash) = (u64::MAX, blake3::hash(b""));
        list.add("large".into(), ListedFile { size, hash });
        assert_eq!(list.bytes(), u64::MAX);
    }

    #[test]
    fn a_list_names_only_files_in_its_directory() {
        for name in ["../x", "a/b", "..", ".", "", "a\0b", "a\r"] {
            let mut list = FileList::default();
            let hash = blake3::hash(b"");
            list.add(name.into(), ListedFile { size: 0, hash });
            assert_eq!(FileList::parse(&list.text()), None, "{name}");
        }
    }
}
