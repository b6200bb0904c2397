//! Archives out of and into the directory of a workspace while an agent works
//! in it.
//!
//! Whoever is in the sandbox may turn any directory into a symbolic link at any
//! moment, and archives come from anywhere. So nothing is opened by a path that
//! is resolved freely: each step is `openat2` beneath the workspace with symbolic
//! links refused, and every file is made anew.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid,
};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

/// Why an archive was not written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// Nothing is there.
    #[error("there is nothing at `{}`", .0.display())]
    NoSuchPath(PathBuf),
    /// The path leads elsewhere.
    #[error("`{}` leads through a symbolic link or is no directory", .0.display())]
    NotADirectory(PathBuf),
    /// Something in it cannot be unpacked here.
    #[error("`{}` cannot be unpacked: {why}", .name.display())]
    Refused {
        /// Its name.
        name: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// The disk is full.
    #[error("the workspace is full")]
    Full,
    /// It holds more than was allowed.
    #[error("the archive holds more than {0} bytes")]
    TooLarge(u64),
    /// The archive cannot be read to its end.
    #[error("the archive is damaged or cut off")]
    Damaged(#[source] io::Error),
    /// Files cannot be read or written.
    #[error("a file could not be read or written")]
    Io(#[source] io::Error),
}

type Result<T> = std::result::Result<T, ArchiveError>;

/// Who owns what is unpacked, and how much that may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) owner: Option<(u32, u32)>,
    pub(crate) limit: u64,
}

const DEEPEST: usize = 128;
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// A path as it is meant within a workspace.
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

/// Writes what is at `path` as a tar. Names start at `path`: a directory's
/// content, or a file by its own name. Sockets, pipes and devices are left out.
pub(crate) fn pack(root: &Path, path: &Path, out: impl Write) -> Result<()> {
    let root = open_root(root)?;
    let mut builder = Builder::new(out);
    let below = match path.as_os_str().is_empty() {
        true => open_beneath(root.as_fd(), Path::new("."), path),
        false => open_beneath(root.as_fd(), path, path),
    };
    match below {
        Ok(directory) => pack_directory(&mut builder, directory, &PathBuf::new(), 0)?,
        Err(ArchiveError::NotADirectory(_)) => {
            let parent = path.parent().unwrap_or(Path::new(""));
            let parent = match parent.as_os_str().is_empty() {
                true => root,
                false => open_beneath(root.as_fd(), parent, path)?,
            };
            let name = path.file_name().unwrap_or_default();
            pack_entry(&mut builder, &parent, name, Path::new(name), 0)?;
        }
        Err(error) => return Err(error),
    }
    let mut out = builder.into_inner().map_err(ArchiveError::Io)?;
    out.flush().map_err(ArchiveError::Io)
}

/// Whether there is something at `path` that can be packed.
pub(crate) fn exists(root: &Path, path: &Path) -> Result<()> {
    let root = open_root(root)?;
    let parent = match path.parent() {
        None => return Ok(()),
        Some(parent) if parent.as_os_str().is_empty() => root,
        Some(parent) => open_beneath(root.as_fd(), parent, path)?,
    };
    let name = path.file_name().unwrap_or_default();
    match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(()),
        Err(Errno::NOENT) => Err(ArchiveError::NoSuchPath(path.into())),
        Err(error) => Err(failed(error)),
    }
}

fn pack_directory(
    builder: &mut Builder<impl Write>,
    directory: OwnedFd,
    name: &Path,
    depth: usize,
) -> Result<()> {
    if depth > DEEPEST {
        let why = "it is nested too deeply";
        return Err(ArchiveError::Refused {
            name: name.into(),
            why,
        });
    }
    let mut names: Vec<OsString> = Vec::new();
    for entry in Dir::read_from(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    names.sort();
    for entry in names {
        let path = name.join(&entry);
        pack_entry(builder, &directory, &entry, &path, depth)?;
    }
    Ok(())
}

/// What has gone meanwhile is left out.
fn pack_entry(
    builder: &mut Builder<impl Write>,
    directory: &OwnedFd,
    entry: &OsStr,
    path: &Path,
    depth: usize,
) -> Result<()> {
    let stat = match rustix::fs::statat(directory, entry, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        stat => stat.map_err(failed)?,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => pack_file(builder, directory, entry, path),
        FileType::Directory => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let below = match rustix::fs::openat(directory, entry, flags, Mode::empty()) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                below => below.map_err(failed)?,
            };
            append(builder, &stat, EntryType::Directory, path, 0, io::empty())?;
            pack_directory(builder, below, path, depth + 1)
        }
        FileType::Symlink => {
            let target = match rustix::fs::readlinkat(directory, entry, Vec::new()) {
                Err(Errno::NOENT | Errno::INVAL) => return Ok(()),
                target => target.map_err(failed)?,
            };
            let mut header = header(&stat, EntryType::Symlink, 0);
            let target = OsString::from_vec(target.into_bytes());
            builder
                .append_link(&mut header, path, target)
                .map_err(ArchiveError::Io)
        }
        _ => Ok(()),
    }
}

fn pack_file(
    builder: &mut Builder<impl Write>,
    directory: &OwnedFd,
    entry: &OsStr,
    path: &Path,
) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, entry, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(()),
        file => file.map_err(failed)?,
    };
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    let size = stat.st_size as u64;
    // Exactly as long as the header says, whatever becomes of the file.
    let content = File::from(file).chain(io::repeat(0)).take(size);
    append(builder, &stat, EntryType::Regular, path, size, content)
}

fn append(
    builder: &mut Builder<impl Write>,
    stat: &Stat,
    kind: EntryType,
    path: &Path,
    size: u64,
    content: impl Read,
) -> Result<()> {
    let mut header = header(stat, kind, size);
    let appended = builder.append_data(&mut header, path, content);
    appended.map_err(ArchiveError::Io)
}

fn header(stat: &Stat, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o777);
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or_default());
    header.set_size(size);
    header
}

/// Unpacks a tar into the directory `path`, which is made if it is not there.
/// What is there by the same name is replaced. Returns how many entries.
pub(crate) fn unpack(root: &Path, path: &Path, from: impl Read, rules: Rules) -> Result<u64> {
    let root = open_root(root)?;
    let target = make_directories(root, path, path, rules)?;
    let mut archive = tar::Archive::new(from);
    let mut room = rules.limit;
    let mut count = 0;
    for entry in archive.entries().map_err(ArchiveError::Damaged)? {
        let mut entry = entry.map_err(ArchiveError::Damaged)?;
        let name = entry.path().map_err(ArchiveError::Damaged)?.into_owned();
        let clean = name.to_str().and_then(|text| {
            let absolute = text.starts_with('/');
            relative(text).filter(|_| !absolute)
        });
        let bytes_only = name
            .to_str()
            .is_none()
            .then(|| relative_bytes(&name))
            .flatten();
        let Some(clean) = clean.or(bytes_only) else {
            return Err(refused(&name, "its name leads out of the directory"));
        };
        if clean.components().count() > DEEPEST {
            return Err(refused(&name, "it is nested too deeply"));
        }
        let copy = target.try_clone().map_err(ArchiveError::Io)?;
        room = room
            .checked_sub(entry.size())
            .ok_or(ArchiveError::TooLarge(rules.limit))?;
        unpack_entry(copy, &clean, &mut entry, rules)?;
        count += 1;
    }
    Ok(count)
}

fn relative_bytes(name: &Path) -> Option<PathBuf> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    name.components().all(plain).then(|| name.to_owned())
}

fn unpack_entry(
    target: OwnedFd,
    name: &Path,
    entry: &mut tar::Entry<'_, impl Read>,
    rules: Rules,
) -> Result<()> {
    let kind = entry.header().entry_type();
    if kind.is_dir() {
        let directory = make_directories(target, name, name, rules)?;
        let mode = entry.header().mode().unwrap_or(0o755) & 0o777 | 0o700;
        return rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode)).map_err(failed);
    }
    let Some(last) = name.file_name() else {
        return Ok(());
    };
    let parent = name.parent().unwrap_or(Path::new(""));
    let again = target.try_clone().map_err(ArchiveError::Io)?;
    let directory = make_directories(target, parent, name, rules)?;
    match kind {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            clear(&directory, last, name)?;
            unpack_file(&directory, last, entry, rules)
        }
        EntryType::Symlink => {
            let link = entry.link_name().map_err(ArchiveError::Damaged)?;
            let link = link.ok_or_else(|| refused(name, "a link to nothing"))?;
            clear(&directory, last, name)?;
            rustix::fs::symlinkat(link.as_os_str(), &directory, last).map_err(failed)?;
            own_link(&directory, last, rules)
        }
        EntryType::Link => unpack_hard_link(again, &directory, last, name, entry),
        _ => Err(refused(name, "it is neither file, directory nor link")),
    }
}

fn unpack_file(
    directory: &OwnedFd,
    name: &OsStr,
    entry: &mut tar::Entry<'_, impl Read>,
    rules: Rules,
) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600));
    let mut file = File::from(file.map_err(failed)?);
    copy(entry, &mut file)?;
    let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(failed)?;
    if let Some((uid, gid)) = rules.owner {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::fchown(&file, Some(uid), Some(gid)).map_err(failed)?;
    }
    let modified = Timespec {
        tv_sec: entry
            .header()
            .mtime()
            .unwrap_or_default()
            .try_into()
            .unwrap_or(i64::MAX),
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: modified,
        last_modification: modified,
    };
    rustix::fs::futimens(&file, &times).map_err(failed)
}

/// Tells a source that fails from a target that does.
fn copy(from: &mut impl Read, into: &mut File) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            length => length.map_err(ArchiveError::Damaged)?,
        };
        if length == 0 {
            return Ok(());
        }
        into.write_all(&buffer[..length]).map_err(io_failed)?;
    }
}

fn unpack_hard_link(
    target: OwnedFd,
    directory: &OwnedFd,
    last: &OsStr,
    name: &Path,
    entry: &mut tar::Entry<'_, impl Read>,
) -> Result<()> {
    let link = entry.link_name().map_err(ArchiveError::Damaged)?;
    let link = link.and_then(|link| relative(link.to_str()?));
    let link = link.ok_or_else(|| refused(name, "it links to something outside"))?;
    let Some(from_name) = link.file_name() else {
        return Err(refused(name, "it links to a directory"));
    };
    let parent = link.parent().unwrap_or(Path::new(""));
    let from = match parent.as_os_str().is_empty() {
        true => target,
        false => open_beneath(target.as_fd(), parent, name)?,
    };
    let stat = rustix::fs::statat(&from, from_name, AtFlags::SYMLINK_NOFOLLOW);
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !stat.as_ref().is_ok_and(is_file) {
        return Err(refused(name, "it links to something that is no file"));
    }
    clear(directory, last, name)?;
    rustix::fs::linkat(&from, from_name, directory, last, AtFlags::empty()).map_err(failed)
}

/// Removes what is in the way of a file.
fn clear(directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => Err(refused(path, "a directory is in its place")),
        Err(error) => Err(failed(error)),
    }
}

fn own_link(directory: &OwnedFd, name: &OsStr, rules: Rules) -> Result<()> {
    let Some((uid, gid)) = rules.owner else {
        return Ok(());
    };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(directory, name, Some(uid), Some(gid), flags).map_err(failed)
}

fn open_root(root: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty()).map_err(failed)
}

/// A directory below another; `named` is what is told of it.
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

/// Goes down a path and makes what is missing.
fn make_directories(root: OwnedFd, path: &Path, named: &Path, rules: Rules) -> Result<OwnedFd> {
    let mut directory = root;
    for part in path.components() {
        let Component::Normal(name) = part else {
            continue;
        };
        let made = rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o755));
        match made {
            Ok(()) => own_link(&directory, name, rules)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        directory = open_beneath(directory.as_fd(), Path::new(name), named)?;
    }
    Ok(directory)
}

fn refused(name: &Path, why: &'static str) -> ArchiveError {
    ArchiveError::Refused {
        name: name.into(),
        why,
    }
}

fn failed(error: Errno) -> ArchiveError {
    io_failed(error.into())
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
            // As a hostile archiver would, past every check.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn what_is_packed_is_unpacked() {
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
            matches!(result, Err(ArchiveError::TooLarge(99))),
            "{result:?}"
        );
    }
}
