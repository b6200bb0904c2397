//! Operations on single files of a backup.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use blake3::Hasher;

use crate::platform::backup::manifest::Listed;

const BUFFER: usize = 1 << 20;

/// Creates a directory that only its owner can read, and its parents.
pub(crate) fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)
}

/// Copies the first `length` bytes of a file to a new file. Only the owner can
/// read the copy, and it is durable when this function returns.
pub(crate) fn copy(from: &Path, to: &Path, length: u64) -> io::Result<Listed> {
    let mut options = OpenOptions::new();
    let mut target = options.write(true).create_new(true).mode(0o600).open(to)?;
    let listed = read(from, length, |piece| target.write_all(piece))?;
    target.sync_all()?;
    Ok(listed)
}

/// Returns the size and the hash of a file.
pub(crate) fn look(path: &Path) -> io::Result<Listed> {
    read(path, u64::MAX, |_| Ok(()))
}

fn read(
    path: &Path,
    length: u64,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Listed> {
    let mut source = File::open(path)?.take(length);
    let mut buffer = vec![0; BUFFER];
    let (mut hasher, mut size) = (Hasher::new(), 0);
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            let hash = hasher.finalize();
            return Ok(Listed { size, hash });
        }
        hasher.update(&buffer[..read]);
        take(&buffer[..read])?;
        size += read as u64;
    }
}

/// Copies a file that other processes append lines to, up to its last full
/// line.
pub(crate) fn copy_lines(from: &Path, to: &Path) -> io::Result<()> {
    let length = end_of_lines(&mut File::open(from)?)?;
    copy(from, to, length).map(drop)
}

fn end_of_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut buffer = vec![0; BUFFER];
    while end > 0 {
        let start = end.saturating_sub(BUFFER as u64);
        let piece = &mut buffer[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(piece)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Lists all files below `root`, relative to it, except for files in the
/// directory `without`. Syncs all listed directories.
pub(crate) fn list(root: &Path, without: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let path = entry.path();
            match entry.file_type()?.is_dir() {
                true if path == without => {}
                true => open.push(path),
                false => found.push(path.strip_prefix(root).unwrap_or(&path).to_owned()),
            }
        }
        sync(&directory)?;
    }
    Ok(found)
}

/// Syncs a directory, so that the names of its files are durable.
pub(crate) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Deletes a directory with everything in it, if it exists.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_copied_up_to_the_last_whole_one() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        let long = "x".repeat(BUFFER + 7);
        for (text, whole) in [
            ("", ""),
            ("torn", ""),
            ("one\ntwo\n", "one\ntwo\n"),
            ("one\ntwo", "one\n"),
            (&format!("one\n{long}"), "one\n"),
            (&format!("{long}\n{long}"), &format!("{long}\n")),
        ] {
            fs::write(&from, text).unwrap();
            copy_lines(&from, &to).unwrap();
            assert_eq!(fs::read_to_string(&to).unwrap(), whole);
            fs::remove_file(&to).unwrap();
        }
    }
}
