//! Workspaces that belong to a user of this machine (docs/decisions/0036).
//!
//! The directories above a workspace are closed to other users. An entry in
//! their access lists (ACL) lets the owner of a workspace pass through them,
//! without listing or writing. The last of these directories belongs to one
//! workspace, so the owners of other workspaces cannot enter it.
//!
//! ```text
//! DATA_DIR             0700  user:1001:--x  user:1002:--x
//!   workspaces/        0700  user:1001:--x  user:1002:--x
//!     TENANT/live/     0700  user:1001:--x  user:1002:--x
//!       ws-1/          0700  user:1001:--x
//!         files/       belongs to 1001
//!       ws-2/          0700  user:1002:--x
//!         files/       belongs to 1002
//! ```

use std::io;
use std::path::Path;

use elevo_workspace::Owner;
use nix::unistd::{Uid, User};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::failure::{Failure, Result};

/// The attribute that holds the access list of a directory.
pub(crate) const NAME: &str = "system.posix_acl_access";
/// Maximum size of an attribute in the kernel.
pub(crate) const LONGEST: usize = 64 << 10;
/// Version of the attribute's format, which precedes its entries.
const VERSION: u32 = 2;
/// Tags of the entries in the attribute. The entries are sorted by tag.
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
/// The id of an entry that is not for a named user or group.
const NONE: u32 = u32::MAX;
/// The right to pass through a directory, and nothing else.
const PASS: u16 = 0o1;

/// Finds the user that a request names, by number or name.
pub(crate) fn find(text: &str) -> Result<Owner> {
    let invalid = |why: &str| {
        let text = crate::failure::short(text);
        Failure::invalid(format!("`owner`: `{text}` {why}"))
    };
    let found = match text.parse::<u32>() {
        Ok(uid) => User::from_uid(Uid::from_raw(uid)).map(|user| (uid, user)),
        Err(_) => User::from_name(text).map(|user| {
            let uid = user.as_ref().map_or(NONE, |user| user.uid.as_raw());
            (uid, user)
        }),
    };
    let (uid, user) = found.map_err(|error| Failure::internal(&error))?;
    match uid {
        0 => Err(invalid("is root and cannot be the owner of a workspace")),
        NONE => Err(invalid("is not a user of the server's machine")),
        uid => Ok(Owner {
            uid,
            gid: user.map_or(uid, |user| user.gid.as_raw()),
        }),
    }
}

/// Lets a user pass through the directories above a path, from `top` on.
pub(crate) fn let_through(path: &Path, top: &Path, uid: u32) -> io::Result<()> {
    let above = path.ancestors().skip(1);
    for directory in above.take_while(|directory| directory.starts_with(top)) {
        grant(directory, uid)?;
    }
    Ok(())
}

fn grant(directory: &Path, uid: u32) -> io::Result<()> {
    let mode = rustix::fs::stat(directory)?.st_mode;
    let mut entries = match read(directory)? {
        Some(entries) => entries,
        None => plain(mode),
    };
    if entries.contains(&(USER, PASS, uid)) {
        return Ok(());
    }
    entries.retain(|(tag, _, id)| *tag != MASK && (*tag, *id) != (USER, uid));
    entries.extend([(USER, PASS, uid), (MASK, mask(&entries), NONE)]);
    entries.sort_by_key(|(tag, _, id)| (*tag, *id));
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    Ok(rustix::fs::setxattr(
        directory,
        NAME,
        &bytes,
        XattrFlags::empty(),
    )?)
}

/// Returns the maximum rights of named users and groups.
fn mask(entries: &[Entry]) -> u16 {
    let named = entries.iter().filter(|(tag, ..)| {
        // All entries except those of the directory's owner and of others.
        *tag != USER_OBJ && *tag != OTHER
    });
    named.fold(PASS, |mask, (_, rights, _)| mask | rights)
}

/// Tag, rights and id of an entry.
type Entry = (u16, u16, u32);

/// Returns the entries of a directory without an access list.
fn plain(mode: u32) -> Vec<Entry> {
    let rights = |shift: u32| ((mode >> shift) & 0o7) as u16;
    vec![
        (USER_OBJ, rights(6), NONE),
        (GROUP_OBJ, rights(3), NONE),
        (OTHER, rights(0), NONE),
    ]
}

fn read(directory: &Path) -> io::Result<Option<Vec<Entry>>> {
    let mut bytes = vec![0; LONGEST];
    let length = match rustix::fs::getxattr(directory, NAME, &mut bytes[..]) {
        Ok(length) => length,
        Err(Errno::NODATA) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let entries = bytes[4.min(length)..length].chunks_exact(8);
    let number = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
    let entries = entries.map(|entry| {
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        (number(entry), number(&entry[2..]), id)
    });
    Ok(Some(entries.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_number_or_name() {
        assert_eq!(find("nobody").unwrap().uid, 65534);
        assert_eq!(
            find("12345").unwrap(),
            Owner {
                uid: 12345,
                gid: 12345
            }
        );
        for bad in ["0", "root", "no such user", "", "4294967295", "-1"] {
            assert!(find(bad).is_err(), "{bad}");
        }
    }
}
