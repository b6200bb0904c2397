//! The manifest, which makes a directory a backup of a server:
//!
//! ```text
//! elevo server backup 1
//! installation abcdefghijkmnpqr
//! generation 12
//! begun 2026-11-16T10:30:00.000Z
//! ended 2026-11-16T10:30:07.123Z
//! database 0/1A2B3C4D          only in format 2, where no file is the catalog
//! <BLAKE3> <size> <path>       for each file, but those that store/BACKUP lists
//! <BLAKE3 of all lines before>
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Component, Path};

use blake3::Hash;

pub(crate) const FILE: &str = "SERVER-BACKUP";
/// The newest format that this code reads and writes. It also grows with the
/// format of the data directory and of the audit log.
pub(crate) const FORMAT: u32 = 2;
/// The format of a backup that contains its catalog.
const WITH_CATALOG: u32 = 1;
const WORDS: &str = "elevo server backup ";
/// Maximum size of a manifest.
const LARGEST: u64 = 64 << 20;

/// The size and the hash of a file in a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) size: u64,
    pub(crate) hash: Hash,
}

/// The content of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) installation: String,
    pub(crate) generation: u64,
    /// The times when the backup began and ended, in RFC 3339.
    pub(crate) begun: String,
    pub(crate) ended: String,
    /// The position in the log of the database that the catalog was in; `None`
    /// if the backup contains the catalog. The backup belongs to the state of
    /// the database at this position.
    pub(crate) database: Option<String>,
    pub(crate) files: BTreeMap<String, Listed>,
}

/// Returns whether this directory is a finished backup.
pub(crate) fn is_backup(path: &Path) -> bool {
    path.join(FILE).is_file()
}

/// A manifest as it is found in a backup.
#[derive(Debug)]
pub(crate) enum FoundManifest {
    Whole(Manifest),
    Damaged,
    /// A newer version of Elevo wrote it, in this format.
    Newer(u32),
}

impl Manifest {
    /// Reads the manifest of a backup.
    pub(crate) fn read(backup: &Path) -> io::Result<FoundManifest> {
        let mut text = String::new();
        let file = File::open(backup.join(FILE))?;
        match file.take(LARGEST).read_to_string(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(FoundManifest::Damaged);
            }
            read => read?,
        };
        Ok(match (format_of(&text), Self::parse(&text)) {
            (Some(found), _) if found > FORMAT => FoundManifest::Newer(found),
            (_, Some(manifest)) => FoundManifest::Whole(manifest),
            (_, None) => FoundManifest::Damaged,
        })
    }

    /// Writes the manifest, which makes a directory a backup, and syncs it. The
    /// caller must sync the directory.
    pub(crate) fn write(&self, backup: &Path) -> io::Result<()> {
        let mut file = File::create_new(backup.join(FILE))?;
        file.write_all(self.text().as_bytes())?;
        file.sync_all()
    }

    /// Deletes the manifest, after which the directory is not a backup any
    /// more.
    pub(crate) fn remove(backup: &Path) -> io::Result<()> {
        fs::remove_file(backup.join(FILE))
    }

    pub(crate) fn bytes(&self) -> u64 {
        let sizes = self.files.values().map(|file| file.size);
        sizes.fold(0, u64::saturating_add)
    }

    fn text(&self) -> String {
        let format = match self.database {
            None => WITH_CATALOG,
            Some(_) => FORMAT,
        };
        let mut text = format!("{WORDS}{format}\ninstallation {}\n", self.installation);
        // Writing into a string cannot fail.
        let _ = writeln!(text, "generation {}", self.generation);
        let _ = writeln!(text, "begun {}\nended {}", self.begun, self.ended);
        if let Some(position) = &self.database {
            let _ = writeln!(text, "database {position}");
        }
        for (path, Listed { size, hash }) in &self.files {
            let _ = writeln!(text, "{hash} {size} {path}");
        }
        let hash = blake3::hash(text.as_bytes());
        text + &format!("{hash}\n")
    }

    /// Parses a manifest. Accepts only text that [`Self::text`] returns.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let body = text.strip_suffix('\n')?;
        let (_, last) = body.rsplit_once('\n')?;
        let lines = &text[..body.len() - last.len()];
        if last.parse::<Hash>().ok()? != blake3::hash(lines.as_bytes()) {
            return None;
        }
        let format = format_of(lines)?;
        let mut lines = lines.lines();
        lines.next()?;
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let mut manifest = Self {
            installation: field("installation")?.to_owned(),
            generation: field("generation")?.parse().ok()?,
            begun: field("begun")?.to_owned(),
            ended: field("ended")?.to_owned(),
            database: match format {
                WITH_CATALOG => None,
                _ => Some(field("database")?.to_owned()),
            },
            files: BTreeMap::new(),
        };
        for line in lines {
            let mut words = line.splitn(3, ' ');
            let hash = words.next()?.parse().ok()?;
            let size = words.next()?.parse().ok()?;
            let path = words.next().filter(|path| is_inside(path))?;
            manifest.files.insert(path.into(), Listed { size, hash });
        }
        (manifest.text() == text).then_some(manifest)
    }
}

/// Returns the format that the first line of a manifest states.
fn format_of(text: &str) -> Option<u32> {
    text.lines().next()?.strip_prefix(WORDS)?.parse().ok()
}

/// Returns whether a path stays in the directory that it is joined to.
fn is_inside(path: &str) -> bool {
    let is_plain = |part| matches!(part, Component::Normal(_));
    !path.is_empty() && !path.contains('\0') && Path::new(path).components().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let file = |text: &str| Listed {
            size: text.len() as u64,
            hash: blake3::hash(text.as_bytes()),
        };
        Manifest {
            installation: "abc".into(),
            generation: 7,
            begun: "2026-11-16T10:30:00.000Z".into(),
            ended: "2026-11-16T10:30:07.000Z".into(),
            database: None,
            files: BTreeMap::from([
                ("catalog.db".into(), file("rows")),
                ("audit/00000000000000000001.jsonl".into(), file("")),
            ]),
        }
    }

    #[test]
    fn a_manifest_can_be_written_and_read() {
        assert_eq!(Manifest::parse(&sample().text()), Some(sample()));
        let without_catalog = Manifest {
            database: Some("0/1A2B3C4D".into()),
            ..sample()
        };
        let text = without_catalog.text();
        assert!(text.starts_with("elevo server backup 2\n"), "{text}");
        assert_eq!(Manifest::parse(&text), Some(without_catalog));
    }

    #[test]
    fn a_backup_with_its_catalog_can_be_read_by_older_versions() {
        let text = sample().text();
        assert!(text.starts_with("elevo server backup 1\n"), "{text}");
    }

    #[test]
    fn rejects_a_manifest_that_was_cut_off_or_has_a_flipped_bit() {
        let text = sample().text();
        for at in 0..text.len() {
            assert_eq!(Manifest::parse(&text[..at]), None, "cut at {at}");
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let flipped = String::from_utf8(bytes).unwrap();
                assert_eq!(Manifest::parse(&flipped), None, "bit {bit} of {at}");
            }
        }
    }

    #[test]
    fn rejects_paths_that_lead_out_of_the_directory() {
        for path in ["../x", "/x", "a/../../x", "", "./x", "a\0b"] {
            let mut manifest = sample();
            let file = manifest.files["catalog.db"];
            manifest.files.insert(path.into(), file);
            assert_eq!(Manifest::parse(&manifest.text()), None, "{path:?}");
        }
    }
}
