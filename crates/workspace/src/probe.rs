//! Finds out by trying which providers work in a directory, and chooses the
//! default for new workspaces.

#[cfg(target_os = "linux")]
mod linux;

use std::fs;
use std::io;
use std::path::Path;

use crate::provider::ProviderKind;
#[cfg(target_os = "linux")]
use linux::{obstacle_to_entering, obstacle_to_overlays, obstacle_to_serving};

/// Whether one provider works here.
#[derive(Clone, Debug)]
pub struct ProbeResult {
    /// The provider that was tried.
    pub provider: ProviderKind,
    /// Why it does not work, and the remedy; `None` if it works.
    pub obstacle: Option<String>,
}

impl ProbeResult {
    /// The cost of a workspace with this provider, in a sentence for users.
    pub const fn cost(&self) -> &'static str {
        match self.provider {
            ProviderKind::Overlay => {
                "a workspace takes a mount, and disk space for its changes only"
            }
            ProviderKind::Lazy => {
                "like overlay, without the wait for the first workspace; files are fetched on read"
            }
            ProviderKind::Reflink => {
                "a workspace takes a moment for each file, and disk space for its changes only"
            }
            ProviderKind::Copy => "a workspace takes the time and disk space of all its files",
            ProviderKind::Rootless => {
                "like overlay, visible only to commands of `elevo ws exec`; must be requested"
            }
            ProviderKind::RootlessLazy => {
                "like lazy, visible only to commands of `elevo ws exec`; must be requested"
            }
        }
    }
}

/// Tries every provider in `directory`, which is created if it does not exist,
/// and leaves nothing behind there.
pub fn probe(directory: &Path) -> io::Result<Vec<ProbeResult>> {
    fs::create_dir_all(directory)?;
    let finding = |provider| ProbeResult {
        provider,
        obstacle: obstacle_to(provider, directory),
    };
    Ok(ProviderKind::ALL.map(finding).into())
}

/// Returns the provider for new workspaces if none is requested: the same as
/// [`default_of`], but stops at the first that works.
pub(crate) fn default_in(directory: &Path) -> io::Result<ProviderKind> {
    fs::create_dir_all(directory)?;
    let mut kinds = ProviderKind::ALL.into_iter();
    let works = kinds.find(|kind| obstacle_to(*kind, directory).is_none());
    Ok(works.unwrap_or(ProviderKind::Copy))
}

#[cfg(target_os = "linux")]
fn obstacle_to(provider: ProviderKind, directory: &Path) -> Option<String> {
    let serving = || obstacle_to_serving(directory);
    match provider {
        ProviderKind::Overlay => obstacle_to_overlays(directory),
        ProviderKind::Lazy => obstacle_to_overlays(directory).or_else(serving),
        ProviderKind::Reflink => obstacle_to_cloning(directory),
        ProviderKind::Copy => None,
        ProviderKind::Rootless => obstacle_to_entering(directory),
        ProviderKind::RootlessLazy => obstacle_to_entering(directory).or_else(serving),
    }
}

#[cfg(not(target_os = "linux"))]
fn obstacle_to(provider: ProviderKind, directory: &Path) -> Option<String> {
    match provider {
        ProviderKind::Reflink => obstacle_to_cloning(directory),
        ProviderKind::Copy => None,
        _ => Some("overlays work only on Linux; use `reflink` or `copy`".into()),
    }
}

/// Returns the provider for new workspaces if none is requested: the first that
/// works. That is never a private one, since `Copy` comes before those.
pub fn default_of(findings: &[ProbeResult]) -> ProviderKind {
    let works = findings.iter().find(|finding| finding.obstacle.is_none());
    works.map_or(ProviderKind::Copy, |finding| finding.provider)
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
        "the file system of {} cannot clone files ({error}); use APFS, btrfs, XFS or bcachefs",
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
        let is_copy = |finding: &&ProbeResult| finding.provider == ProviderKind::Copy;
        let copy = findings.iter().find(is_copy).unwrap();
        assert!(copy.obstacle.is_none());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn chooses_the_first_provider_that_works() {
        let finding = |provider, obstacle: Option<&str>| ProbeResult {
            provider,
            obstacle: obstacle.map(Into::into),
        };
        let [good, bad] = [None, Some("no")].map(|why| finding(ProviderKind::Reflink, why));
        let copy = finding(ProviderKind::Copy, None);
        assert_eq!(default_of(&[good, copy.clone()]), ProviderKind::Reflink);
        assert_eq!(default_of(&[bad, copy]), ProviderKind::Copy);
    }
}
