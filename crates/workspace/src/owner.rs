//! Sets the owner of files that root creates for another user.

use std::os::unix::fs::lchown;
use std::path::Path;

use elevo_engine::Owner;

use crate::error::{Error, Result};

/// Changes the owner of a directory, if one is given.
pub(crate) fn set_owner(path: &Path, owner: Option<Owner>) -> Result<()> {
    let Some(Owner { uid, gid }) = owner else {
        return Ok(());
    };
    lchown(path, Some(uid), Some(gid)).map_err(Error::io("change the owner of", path))
}
