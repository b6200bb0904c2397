//! Packs files of this machine into tar archives, and unpacks archives.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::Context;
use tar::{Builder, EntryType, HeaderMode};

use crate::client::call::Done;
use crate::errors::SandboxProblem;

/// Counts the bytes of an archive that is passed on without parsing its entries.
pub(crate) struct Counting<'a, W> {
    out: W,
    done: &'a Done,
}

impl<'a, W> Counting<'a, W> {
    pub(crate) fn new(out: W, done: &'a Done) -> Self {
        Self { out, done }
    }
}

impl<W: Write> Write for Counting<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.out.write(bytes)?;
        self.done.bytes.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a file or a directory as a tar archive, under the name `name`. If `name`
/// is empty, writes the content of the directory. Returns notes for the user.
pub(crate) fn pack(
    from: &Path,
    name: &Path,
    out: impl Write,
    done: &Done,
) -> anyhow::Result<Vec<String>> {
    let mut builder = Builder::new(out);
    builder.follow_symlinks(false);
    builder.mode(HeaderMode::Complete);
    let mut left_out = 0;
    append(&mut builder, from, name, done, &mut left_out)?;
    builder.into_inner()?.flush()?;
    let mut notes = Vec::new();
    if left_out > 0 {
        let count = crate::output::format::count(
            left_out,
            "socket, pipe or device",
            "sockets, pipes or devices",
        );
        notes.push(format!("{count} left out"));
    }
    Ok(notes)
}

fn append<W: Write>(
    builder: &mut Builder<W>,
    from: &Path,
    name: &Path,
    done: &Done,
    left_out: &mut u64,
) -> anyhow::Result<()> {
    let failed = || format!("cannot read {}", from.display());
    let meta = fs::symlink_metadata(from).with_context(failed)?;
    let kind = meta.file_type();
    if !kind.is_file() && !kind.is_dir() && !kind.is_symlink() {
        *left_out += 1;
        return Ok(());
    }
    if !name.as_os_str().is_empty() {
        match kind.is_file() {
            // Opened once, so that the metadata and the content are of the
            // same file.
            true => {
                let size = append_file(builder, from, name).with_context(failed)?;
                done.bytes.fetch_add(size, Ordering::Relaxed);
            }
            false => builder
                .append_path_with_name(from, name)
                .with_context(failed)?,
        }
        done.things.fetch_add(1, Ordering::Relaxed);
    }
    if kind.is_dir() {
        let mut names = Vec::new();
        for entry in fs::read_dir(from).with_context(failed)? {
            names.push(entry.with_context(failed)?.file_name());
        }
        names.sort();
        for entry in names {
            let (path, below) = (from.join(&entry), name.join(&entry));
            append(builder, &path, &below, done, left_out)?;
        }
    }
    Ok(())
}

fn append_file<W: Write>(builder: &mut Builder<W>, from: &Path, name: &Path) -> io::Result<u64> {
    let file = File::open(from)?;
    let meta = file.metadata()?;
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&meta);
    // Exactly as long as the header says, even if the file shrinks or grows.
    let content = file.chain(io::repeat(0)).take(meta.len());
    builder.append_data(&mut header, name, content)?;
    Ok(meta.len())
}

/// Destination of a download.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) to: PathBuf,
    /// Name of the source in the sandbox.
    pub(crate) own: String,
    /// Whether the source is copied into `to` under its own name.
    pub(crate) is_into: bool,
    pub(crate) is_certainly_directory: bool,
}

impl Target {
    fn place(&self) -> PathBuf {
        match self.is_into && !self.own.is_empty() {
            true => self.to.join(&self.own),
            false => self.to.clone(),
        }
    }
}

/// Unpacks an archive from a server: the content of a directory, or a single file
/// under its own name. Writes nothing outside the target.
pub(crate) fn unpack(from: impl Read, target: &Target, done: &Done) -> anyhow::Result<()> {
    let place = target.place();
    let failed = || format!("cannot write {}", place.display());
    let mut archive = tar::Archive::new(from);
    archive.set_preserve_permissions(true);
    archive.set_unpack_xattrs(false);
    let mut entries = archive.entries()?.peekable();
    let is_file = match entries.peek() {
        Some(Ok(first)) if !target.is_certainly_directory => {
            let is_directory = first.header().entry_type() == EntryType::Directory;
            let name = first.path()?;
            !is_directory && name.as_os_str() == OsStr::new(&target.own)
        }
        _ => false,
    };
    if !is_file {
        fs::create_dir_all(&place).with_context(failed)?;
    } else if let Some(parent) = place
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        fs::create_dir_all(parent).with_context(failed)?;
    }
    for entry in entries {
        let mut entry = entry.context("the archive is damaged or cut off")?;
        let size = entry.size();
        if is_file {
            if place.is_dir() {
                return Err(SandboxProblem::IsADirectory(place).into());
            }
            entry.unpack(&place).with_context(failed)?;
        } else {
            entry.unpack_in(&place).with_context(failed)?;
        }
        done.things.fetch_add(1, Ordering::Relaxed);
        done.bytes.fetch_add(size, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(to: &Path, own: &str, is_into: bool) -> Target {
        Target {
            to: to.into(),
            own: own.into(),
            is_into,
            is_certainly_directory: false,
        }
    }

    #[test]
    fn a_directory_survives_the_way_there_and_back() {
        let root = tempfile::tempdir().unwrap();
        let from = root.path().join("from");
        fs::create_dir_all(from.join("a/empty")).unwrap();
        fs::write(from.join("a/file"), "text").unwrap();
        std::os::unix::fs::symlink("nowhere", from.join("link")).unwrap();
        let done = Done::default();
        let mut tar = Vec::new();
        let notes = pack(&from, Path::new(""), &mut tar, &done).unwrap();
        assert!(notes.is_empty());
        assert_eq!(done.things.load(Ordering::Relaxed), 4);
        let to = root.path().join("to");
        unpack(tar.as_slice(), &target(&to, "from", false), &done).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/file")).unwrap(), "text");
        assert!(to.join("a/empty").is_dir());
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("nowhere")
        );
    }

    #[test]
    fn a_file_goes_by_its_new_name_or_into_a_directory() {
        let root = tempfile::tempdir().unwrap();
        let from = root.path().join("file");
        fs::write(&from, "text").unwrap();
        let mut tar = Vec::new();
        let done = Done::default();
        pack(&from, Path::new("file"), &mut tar, &done).unwrap();
        let renamed = root.path().join("renamed");
        unpack(tar.as_slice(), &target(&renamed, "file", false), &done).unwrap();
        assert_eq!(fs::read_to_string(&renamed).unwrap(), "text");
        let into = root.path().join("into");
        unpack(tar.as_slice(), &target(&into, "file", true), &done).unwrap();
        assert_eq!(fs::read_to_string(into.join("file")).unwrap(), "text");
    }

    #[test]
    fn nothing_is_written_outside_the_target() {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let mut builder = Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, "link", &outside).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, "link/evil", &b"x"[..])
            .unwrap();
        let tar = builder.into_inner().unwrap();
        let to = root.path().join("to");
        let unpacked = unpack(tar.as_slice(), &target(&to, "x", false), &Done::default());
        assert!(unpacked.is_err());
        assert!(!outside.join("evil").exists());
    }
}
