//! Which ways to make a workspace work in a directory, found out by trying.

use std::fs;
use std::io;
use std::path::Path;

use crate::provider::ProviderKind;

/// Whether one way works here.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which way.
    pub provider: ProviderKind,
    /// Why it does not, and what would help.
    pub obstacle: Option<String>,
}

impl Finding {
    /// What a user of this way gets and pays.
    pub const fn cost(&self) -> &'static str {
        match self.provider {
            ProviderKind::Overlay => {
                "a workspace takes a mount, and the room of what is changed in it"
            }
            ProviderKind::Lazy => {
                "the same, also for the first of a snapshot; files are fetched when they are read"
            }
            ProviderKind::Reflink => {
                "a workspace takes a moment for each file, and no room for its content"
            }
            ProviderKind::Copy => "a workspace takes the time and room of all its files",
        }
    }
}

/// Tries everything in `directory`, which is made if it is not there. The best
/// way comes first.
pub fn probe(directory: &Path) -> io::Result<Vec<Finding>> {
    fs::create_dir_all(directory)?;
    let finding = |provider| {
        let obstacle = match provider {
            ProviderKind::Overlay => obstacle_to_overlays(directory),
            ProviderKind::Lazy => obstacle_to_overlays(directory).or_else(obstacle_to_serving),
            ProviderKind::Reflink => obstacle_to_cloning(directory),
            ProviderKind::Copy => None,
        };
        Finding { provider, obstacle }
    };
    Ok(ProviderKind::ALL.map(finding).into())
}

/// The best way that works.
pub fn choose(findings: &[Finding]) -> ProviderKind {
    let works = findings.iter().find(|finding| finding.obstacle.is_none());
    works.map_or(ProviderKind::Copy, |finding| finding.provider)
}

/// Opening it is all that can be tried without mounting something.
fn obstacle_to_serving() -> Option<String> {
    let device = Path::new("/dev/fuse");
    let opened = fs::OpenOptions::new().read(true).write(true).open(device);
    let error = opened.err()?;
    Some(format!(
        "{} cannot be opened ({error}); load the kernel module `fuse`, or give the container the \
         device",
        device.display()
    ))
}

#[cfg(not(target_os = "linux"))]
fn obstacle_to_overlays(_: &Path) -> Option<String> {
    Some("overlays need Linux".into())
}

#[cfg(target_os = "linux")]
fn obstacle_to_overlays(directory: &Path) -> Option<String> {
    use rustix::io::Errno;
    use rustix::mount::{UnmountFlags, unmount};
    let place = directory.join(format!("probe-overlay-{}", std::process::id()));
    let tried = try_an_overlay(&place);
    let _ = unmount(place.join("files"), UnmountFlags::DETACH);
    let _ = fs::remove_dir_all(&place);
    let error = tried.err()?;
    let advice = match error.raw_os_error() {
        Some(code) if code == Errno::PERM.raw_os_error() => "run as root",
        Some(code) if code == Errno::NODEV.raw_os_error() => "load the kernel module `overlay`",
        _ => "keep workspaces on ext4, XFS or btrfs, outside of containers",
    };
    Some(format!(
        "no overlay can be mounted in {} ({error}); {advice}",
        directory.display()
    ))
}

/// Mounts one and deletes a file in it, which needs whiteouts and attributes.
#[cfg(target_os = "linux")]
fn try_an_overlay(place: &Path) -> io::Result<()> {
    for name in ["lower", "upper", "work", "files"] {
        fs::create_dir_all(place.join(name))?;
    }
    let lower = place.join("lower");
    fs::create_dir(lower.join("directory"))?;
    let files = place.join("files");
    crate::provider::mount_overlay(&[&lower], place, &files)?;
    fs::rename(files.join("directory"), files.join("renamed"))
}

fn obstacle_to_cloning(directory: &Path) -> Option<String> {
    let [from, to] = ["probe-from", "probe-to"].map(|name| {
        let unique = format!("{name}-{}", std::process::id());
        directory.join(unique)
    });
    let tried = try_to_clone(&from, &to);
    let _ = fs::remove_file(&from);
    let _ = fs::remove_file(&to);
    let error = tried.err()?;
    Some(format!(
        "the file system of {} cannot clone files ({error}); APFS, btrfs, XFS and bcachefs can",
        directory.display()
    ))
}

#[cfg(target_os = "linux")]
fn try_to_clone(from: &Path, to: &Path) -> io::Result<()> {
    fs::write(from, [0; 4096])?;
    let (from, to) = (fs::File::open(from)?, fs::File::create_new(to)?);
    Ok(rustix::fs::ioctl_ficlone(to, from)?)
}

#[cfg(target_vendor = "apple")]
fn try_to_clone(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, CloneFlags};
    fs::write(from, [0; 4096])?;
    let from = fs::File::open(from)?;
    Ok(rustix::fs::fclonefileat(
        from,
        CWD,
        to,
        CloneFlags::empty(),
    )?)
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn try_to_clone(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_always_works_and_nothing_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let findings = probe(directory.path()).unwrap();
        let copy = findings.last().unwrap();
        assert_eq!(copy.provider, ProviderKind::Copy);
        assert!(copy.obstacle.is_none());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_first_that_works_is_chosen() {
        let finding = |provider, obstacle: Option<&str>| Finding {
            provider,
            obstacle: obstacle.map(Into::into),
        };
        let [good, bad] = [None, Some("no")].map(|why| finding(ProviderKind::Reflink, why));
        let copy = finding(ProviderKind::Copy, None);
        assert_eq!(choose(&[good, copy.clone()]), ProviderKind::Reflink);
        assert_eq!(choose(&[bad, copy]), ProviderKind::Copy);
    }
}
