//! Finds the disks that a container reads from and writes to.
//!
//! A path is on a mount. A mount belongs to a device, to a loop device over a
//! file, or to an overlay over other paths. Limits apply to whole disks: the
//! kernel does not accept a partition.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Maximum number of overlays and loop devices on top of each other.
const LAYERS: usize = 4;

/// Returns the device files of the disks that hold these paths. A path in
/// memory or on a network has no disk.
pub(super) fn of_paths<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<String> {
    let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else {
        return Vec::new();
    };
    let mounts: Vec<_> = mounts.lines().filter_map(Mount::parse).collect();
    let mut disks = BTreeSet::new();
    for path in paths {
        find(&mounts, path, LAYERS, &mut disks);
    }
    disks.into_iter().collect()
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    device: &'a str,
    at: PathBuf,
    kind: &'a str,
    source: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, of) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(2);
        let mut of = of.split(' ');
        Some(Self {
            device: place.next()?,
            at: unescaped(place.nth(1)?),
            kind: of.next()?,
            source: of.next()?,
            options: of.next().unwrap_or_default(),
        })
    }
}

/// Decodes a path of `mountinfo`, which escapes spaces and similar characters
/// as octal numbers.
fn unescaped(path: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n")];
    let path = escapes
        .iter()
        .fold(path.to_owned(), |path, (from, to)| path.replace(from, to));
    path.replace("\\134", "\\").into()
}

fn find(mounts: &[Mount<'_>], path: &Path, layers: usize, disks: &mut BTreeSet<String>) {
    let Some(layers) = layers.checked_sub(1) else {
        return;
    };
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let over = |mount: &&Mount<'_>| path.starts_with(&mount.at);
    // Of several mounts at one path, the last is visible, which `max_by_key`
    // returns.
    let Some(mount) = mounts
        .iter()
        .filter(over)
        .max_by_key(|mount| mount.at.components().count())
    else {
        return;
    };
    if mount.kind == "overlay" {
        let upper = mount
            .options
            .split(',')
            .find_map(|option| option.strip_prefix("upperdir="));
        if let Some(upper) = upper {
            find(mounts, Path::new(upper), layers, disks);
        }
        return;
    }
    // File systems such as btrfs have anonymous device numbers; the source of
    // the mount names their device.
    let number = match mount.device.starts_with("0:") {
        true => number_of(Path::new(mount.source)),
        false => Some(mount.device.to_owned()),
    };
    let Some(number) = number else {
        return;
    };
    let about = PathBuf::from("/sys/dev/block").join(number);
    if let Ok(file) = fs::read_to_string(about.join("loop/backing_file")) {
        find(mounts, Path::new(file.trim_end()), layers, disks);
    }
    disks.extend(disk(&about));
}

/// Returns the device number of a device file, as `major:minor`.
fn number_of(device: &Path) -> Option<String> {
    let found = fs::metadata(device).ok()?;
    let number = found.rdev();
    let is_block = found.file_type().is_block_device();
    is_block.then(|| {
        format!(
            "{}:{}",
            rustix::fs::major(number),
            rustix::fs::minor(number)
        )
    })
}

/// Returns the device file of a disk, or of the disk of a partition.
fn disk(about: &Path) -> Option<String> {
    let about = fs::canonicalize(about).ok()?;
    let about = match about.join("partition").exists() {
        true => about.parent()?,
        false => &about,
    };
    let event = fs::read_to_string(about.join("uevent")).ok()?;
    let name = event
        .lines()
        .find_map(|line| line.strip_prefix("DEVNAME="))?;
    let file = format!("/dev/{name}");
    let number = fs::read_to_string(about.join("dev")).ok()?;
    (number_of(Path::new(&file))? == number.trim()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_device_and_the_path_of_a_mount() {
        let line = r"36 35 0:42 / /a\040b rw,noatime shared:1 - btrfs /dev/loop0 rw,space_cache";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(
            (mount.device, mount.at.as_path()),
            ("0:42", Path::new("/a b"))
        );
        assert_eq!((mount.kind, mount.source), ("btrfs", "/dev/loop0"));
        assert_eq!(Mount::parse("nonsense"), None);
    }

    #[test]
    fn a_path_in_memory_has_no_disk() {
        assert_eq!(of_paths([Path::new("/proc/self")]), [""; 0]);
    }
}
