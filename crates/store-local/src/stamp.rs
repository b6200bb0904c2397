//! The file `SERVER` in a store: which server uses it.
//!
//! ```text
//! elevo server 1
//! installation abcdefghijkmnpqr
//! generation 12
//! ```
//!
//! A store with this file gets its roots from the catalog of that server, so a
//! collection that does not read the catalog would delete objects in use. The
//! generation distinguishes an older catalog from the newest one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use elevo_engine::ServerStamp;

use crate::format;
use crate::open::OpenError;

const FILE: &str = "SERVER";
const UNFINISHED: &str = "SERVER.new";
const WORDS: &str = "elevo server 1";
const LARGEST: usize = 4 << 10;

fn text(stamp: &ServerStamp) -> String {
    let ServerStamp {
        installation,
        generation,
    } = stamp;
    format!("{WORDS}\ninstallation {installation}\ngeneration {generation}\n")
}

/// Accepts only the output of [`text`].
fn parse(read: &str) -> Option<ServerStamp> {
    let mut lines = read.lines();
    lines.next().filter(|line| *line == WORDS)?;
    let stamp = ServerStamp {
        installation: lines.next()?.strip_prefix("installation ")?.into(),
        generation: lines.next()?.strip_prefix("generation ")?.parse().ok()?,
    };
    let id = stamp.installation.as_bytes();
    let is_word = !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric);
    (is_word && text(&stamp) == read).then_some(stamp)
}

/// Returns whether an interrupted restore may leave a file of this name.
pub(crate) fn is_ours(name: &std::ffi::OsStr) -> bool {
    name == FILE || name == UNFINISHED
}

/// Returns whether there is a finished store at `path`, of any format.
pub fn is_store(path: &Path) -> Result<bool, OpenError> {
    match format::read(path) {
        Ok(_) => Ok(true),
        Err(OpenError::NotAStore { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Fails if a newer version of Elevo wrote the store at `path`, if there is one.
/// Changes nothing.
pub fn check_format(path: &Path) -> Result<(), OpenError> {
    match format::check(path) {
        Err(OpenError::NotAStore { .. }) => Ok(()),
        checked => checked,
    }
}

/// Returns the server that uses the store, or the backup of a store, at `path`;
/// `None` if no server ever did.
pub fn server_stamp(path: &Path) -> Result<Option<ServerStamp>, OpenError> {
    let bytes = match fs::read(path.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        read => read.map_err(|error| OpenError::io(path, error))?,
    };
    let read = String::from_utf8(bytes).ok();
    let stamp = read
        .filter(|read| read.len() <= LARGEST)
        .and_then(|read| parse(&read));
    let damaged = || OpenError::DamagedStamp {
        path: path.join(FILE),
    };
    stamp.map(Some).ok_or_else(damaged)
}

/// Replaces the stamp of the store at `path` in one step. The new stamp is
/// durable when this returns. Only the process that writes to the store may
/// call it.
pub fn set_server_stamp(path: &Path, stamp: &ServerStamp) -> Result<(), OpenError> {
    let unfinished = path.join(UNFINISHED);
    let write = || {
        let mut file = File::create(&unfinished)?;
        file.write_all(text(stamp).as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path.join(FILE))?;
        File::open(path)?.sync_all()
    };
    write().map_err(|error| OpenError::io(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> ServerStamp {
        ServerStamp {
            installation: "abc234".into(),
            generation: 12,
        }
    }

    #[test]
    fn a_stamp_reads_back_and_is_replaced() {
        let store = tempfile::tempdir().unwrap();
        assert_eq!(server_stamp(store.path()).unwrap(), None);
        set_server_stamp(store.path(), &sample()).unwrap();
        assert_eq!(server_stamp(store.path()).unwrap(), Some(sample()));
        let next = ServerStamp {
            generation: 13,
            ..sample()
        };
        set_server_stamp(store.path(), &next).unwrap();
        assert_eq!(server_stamp(store.path()).unwrap(), Some(next));
    }

    #[test]
    fn rejects_a_stamp_that_was_cut_off_or_changed() {
        let text = text(&sample());
        let store = tempfile::tempdir().unwrap();
        for end in 0..text.len() {
            fs::write(store.path().join(FILE), &text[..end]).unwrap();
            let read = server_stamp(store.path());
            assert!(matches!(read, Err(OpenError::DamagedStamp { .. })), "{end}");
        }
        for other in ["generation +12\n", "generation 012\n", "generation 12\n\n"] {
            let text = text.replace("generation 12\n", other);
            assert_eq!(parse(&text), None, "{other:?}");
        }
    }
}
