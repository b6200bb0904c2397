//! Mounts an overlay, and composes the options of the mount.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use elevo_engine::OverlayXattrs;
use rustix::mount::{MountFlags, mount};

/// Mount options that differ between overlays.
#[derive(Clone, Copy)]
pub(crate) struct OverlayOptions {
    /// The namespace of the extended attributes of overlayfs.
    pub(crate) marks: OverlayXattrs,
    /// Whether the kernel keeps an index of the upper, and so rejects an upper
    /// that another overlay uses.
    pub(crate) is_indexed: bool,
}

/// Mounts an overlay on `files`. It consists of `lowers`, the first on top, and
/// of `upper` and `work` in `room`. Set-user-id bits and device files have no
/// effect in the overlay.
pub(crate) fn mount_overlay(
    lowers: &[&Path],
    room: &Path,
    files: &Path,
    options: OverlayOptions,
    flags: MountFlags,
) -> io::Result<()> {
    let data = overlay_options(lowers, room, options)?;
    let flags = flags | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount(
        "overlay",
        files,
        "overlay",
        flags,
        Some(data.as_c_str()),
    )?)
}

/// Returns the mount options of an overlay.
///
/// With trusted attributes, directories from lower layers can be renamed
/// (`redirect_dir`); otherwise a rename fails with `EXDEV`, and programs copy.
/// A changed file is always complete in the upper (`metacopy` off).
pub(crate) fn overlay_options(
    lowers: &[&Path],
    room: &Path,
    options: OverlayOptions,
) -> io::Result<CString> {
    let mut data = match options.marks {
        OverlayXattrs::Trusted => b"redirect_dir=on,".to_vec(),
        OverlayXattrs::User => b"userxattr,".to_vec(),
    };
    data.extend_from_slice(b"metacopy=off,xino=auto,index=");
    data.extend_from_slice(match options.is_indexed {
        true => b"on,lowerdir=".as_slice(),
        false => b"off,lowerdir=",
    });
    for (at, lower) in lowers.iter().enumerate() {
        data.extend_from_slice(if at == 0 { b"" } else { b":" });
        data.extend(plain(lower)?);
    }
    for (name, directory) in [(",upperdir=", "upper"), (",workdir=", "work")] {
        data.extend_from_slice(name.as_bytes());
        data.extend(plain(&room.join(directory))?);
    }
    if data.len() >= LONGEST_OPTIONS {
        return Err(io::Error::other(
            "the paths of the layers are too long for a mount; use a shorter path for the workspaces",
        ));
    }
    Ok(CString::new(data)?)
}

/// The kernel copies at most one page of options.
const LONGEST_OPTIONS: usize = 4096;

/// Returns a path, or an error if it has a character with a meaning in mount
/// options.
fn plain(path: &Path) -> io::Result<&[u8]> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.iter().any(|byte| b",:\\".contains(byte)) {
        return Err(io::Error::other(format!(
            "{} contains a comma, colon or backslash, which overlays do not support; use another path",
            path.display()
        )));
    }
    Ok(bytes)
}
