//! Archives out of and into the directory of a workspace while an agent works
//! in it.
//!
//! A process in the sandbox may turn any directory into a symbolic link at any
//! moment, and archives may be hostile. So no path is resolved freely: each
//! step is `openat2` beneath the workspace without symbolic links, and every
//! file is created, never opened for writing.

pub(crate) mod pack;
pub(crate) mod unpack;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use elevo_archive::Limits;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

pub(crate) use crate::platform::archive::pack::pack;
pub(crate) use crate::platform::archive::unpack::Rules;
pub(crate) use crate::platform::archive::unpack::unpack;

/// The reason why an archive was not written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// The path does not exist.
    #[error("there is nothing at `{}`", .0.display())]
    NoSuchPath(PathBuf),
    /// The path leads through a symbolic link or out of the workspace, or is
    /// not a directory.
    #[error("`{}` leads through a symbolic link or is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// An entry cannot be packed or unpacked.
    #[error("`{}` is refused: {why}", .name.display())]
    Refused {
        /// The name of the entry.
        name: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// Another process changed the files at the same time.
    #[error("the files changed while they were being read or written")]
    Changed,
    /// The disk is full.
    #[error("the workspace is full")]
    Full,
    /// The archive cannot be read, or exceeds its limits.
    #[error(transparent)]
    Archive(#[from] elevo_archive::Error),
    /// Files cannot be read or written.
    #[error("a file could not be read or written")]
    Io(#[source] io::Error),
}

type Result<T> = std::result::Result<T, ArchiveError>;

const DEEPEST: usize = 128;

/// Maximum entries of an archive. The limit can be high, because each entry
/// needs memory only while it is processed.
const MOST_ENTRIES: u64 = 10_000_000;

/// Returns the limits of an archive whose files may have `bytes` bytes in
/// total.
pub(crate) fn limits(bytes: u64) -> Limits {
    Limits {
        bytes,
        entries: MOST_ENTRIES,
        depth: DEEPEST,
        ..Limits::LARGEST
    }
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// Returns a path relative to the workspace, or `None` if it leads out.
pub(crate) fn relative(text: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in Path::new(text.trim_start_matches('/')).components() {
        match component {
            Component::Normal(name) if !name.as_bytes().contains(&0) => path.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

fn open_root(root: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty()).map_err(|error| io_failed(error.into()))
}

/// Opens the directory `path` below `root`. Errors contain the path `named`.
fn open_beneath(root: impl AsFd, path: &Path, named: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), BENEATH) {
        Ok(directory) => Ok(directory),
        Err(Errno::NOENT) => Err(ArchiveError::NoSuchPath(named.into())),
        Err(Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {
            Err(ArchiveError::NotADirectory(named.into()))
        }
        Err(error) => Err(failed(error)),
    }
}

fn refused(name: &Path, why: &'static str) -> ArchiveError {
    ArchiveError::Refused {
        name: name.into(),
        why,
    }
}

/// Converts an error of a system call. An error that a sandbox causes when it
/// changes its files becomes `Changed`, which is not a failure of the server.
fn failed(error: Errno) -> ArchiveError {
    match error {
        Errno::NOENT | Errno::EXIST | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP => {
            ArchiveError::Changed
        }
        error => io_failed(error.into()),
    }
}

fn io_failed(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::QuotaExceeded | io::ErrorKind::StorageFull => ArchiveError::Full,
        _ => ArchiveError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tar::{Builder, EntryType, Header};

    use super::*;

    const RULES: Rules = Rules {
        owner: None,
        limit: 1 << 20,
    };

    /// Name, kind, content and target of a link.
    type Entry<'a> = (&'a str, EntryType, &'a [u8], &'a str);

    fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (name, kind, content, link) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o4755);
            header.set_size(content.len() as u64);
            // Written past every check, as a hostile archiver would.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn packed_files_are_unpacked() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::create_dir_all(one.path().join("a/b")).unwrap();
        fs::write(one.path().join("a/b/file"), "content").unwrap();
        fs::set_permissions(
            one.path().join("a/b/file"),
            fs::Permissions::from_mode(0o751),
        )
        .unwrap();
        fs::write(one.path().join("a").join("x".repeat(200)), "long").unwrap();
        symlink("../outside", one.path().join("a/link")).unwrap();
        let mut packed = Vec::new();
        pack(one.path(), Path::new("a"), &mut packed).unwrap();
        unpack(other.path(), Path::new("into/here"), &packed[..], RULES).unwrap();
        let here = other.path().join("into/here");
        assert_eq!(fs::read(here.join("b/file")).unwrap(), b"content");
        let mode = fs::metadata(here.join("b/file"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o751);
        assert_eq!(fs::read(here.join("x".repeat(200))).unwrap(), b"long");
        assert_eq!(
            fs::read_link(here.join("link")).unwrap(),
            Path::new("../outside")
        );

        let mut packed = Vec::new();
        pack(one.path(), Path::new("a/b/file"), &mut packed).unwrap();
        unpack(other.path(), Path::new(""), &packed[..], RULES).unwrap();
        assert_eq!(fs::read(other.path().join("file")).unwrap(), b"content");
    }

    #[test]
    fn hostile_archives_write_nothing_outside() {
        use EntryType::{Char, Directory, Link, Regular, Symlink};
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        let to = outside.path().to_str().unwrap();
        let absolute = secret.to_str().unwrap();
        let cases: &[&[Entry<'_>]] = &[
            &[("../escaped", Regular, b"x", "")],
            &[("a/../../escaped", Regular, b"x", "")],
            &[("/tmp/elevo-escaped", Regular, b"x", "")],
            &[("dir", Symlink, b"", to), ("dir/secret", Regular, b"x", "")],
            &[("dir", Symlink, b"", to), ("dir/new", Directory, b"", "")],
            &[("link", Link, b"", absolute), ("link", Regular, b"x", "")],
            &[("link", Link, b"", "../../etc/passwd")],
            &[("dir", Symlink, b"", to), ("link", Link, b"", "dir/secret")],
            &[("device", Char, b"", "")],
        ];
        for case in cases {
            let root = tempfile::tempdir().unwrap();
            let inside = root.path().join("inside");
            fs::create_dir(&inside).unwrap();
            let result = unpack(&inside, Path::new(""), &archive(case)[..], RULES);
            assert!(result.is_err(), "{case:?}");
            assert_eq!(fs::read(&secret).unwrap(), b"secret", "{case:?}");
            assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "{case:?}");
            assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "{case:?}");
        }
        assert!(!Path::new("/tmp/elevo-escaped").exists());
    }

    #[test]
    fn links_in_the_workspace_are_replaced_and_never_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let root = tempfile::tempdir().unwrap();
        symlink(outside.path().join("secret"), root.path().join("file")).unwrap();
        symlink(outside.path(), root.path().join("dir")).unwrap();
        let tar = archive(&[("file", EntryType::Regular, b"mine", "")]);
        unpack(root.path(), Path::new(""), &tar[..], RULES).unwrap();
        assert_eq!(fs::read(root.path().join("file")).unwrap(), b"mine");
        assert!(unpack(root.path(), Path::new("dir"), &tar[..], RULES).is_err());
        assert!(pack(root.path(), Path::new("dir/secret"), Vec::new()).is_err());
        assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
    }

    #[test]
    fn more_than_the_limit_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let tar = archive(&[("file", EntryType::Regular, &[7; 100], "")]);
        let rules = Rules { limit: 99, ..RULES };
        let result = unpack(root.path(), Path::new(""), &tar[..], rules);
        assert!(
            matches!(
                result,
                Err(ArchiveError::Archive(elevo_archive::Error::TooLarge(99)))
            ),
            "{result:?}"
        );
    }
}
