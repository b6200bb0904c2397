//! Converts the errors of the patch parser into failures that name the file.

pub(crate) mod reader;

use bytes::Bytes;
use elevo_core::{ErrorCode, TreePath};

use crate::app::files::diff::readable;
use crate::app::projects::changes::patch::reader::Refused;
use crate::failure::{Failure, Result};

pub(crate) use crate::app::projects::changes::patch::reader::Edit;
pub(crate) use crate::app::projects::changes::patch::reader::EditKind;
pub(crate) use crate::app::projects::changes::patch::reader::patched;

/// Parses a patch.
pub(crate) fn read(patch: &Bytes) -> Result<Vec<Edit>> {
    reader::read(patch).map_err(failure)
}

/// Parses a path that a change may write to.
pub(crate) fn checked(path: &[u8]) -> Result<TreePath> {
    reader::checked(path).map_err(failure)
}

fn failure(why: Refused) -> Failure {
    match why {
        Refused::Patch(why) => refused(why),
        Refused::Name { name, why } => refused(format!("`{}`: {why}", readable(&name))),
        Refused::File(path, why) => refused_at(&path, why),
        Refused::Binary(path) => refused_at(&path, "the patch of this file is binary")
            .remediation("Send the complete file in `files` with `base64` instead of a patch."),
        Refused::Misfit(path, hunk) => misfit(&path, hunk),
    }
}

pub(crate) fn refused(message: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::PatchRefused, message)
}

pub(crate) fn refused_at(path: &TreePath, why: &str) -> Failure {
    let path = readable(path.as_bytes());
    refused(format!("`{path}`: {why}")).about("path", path)
}

/// Returns the failure of a hunk that does not match the file. `hunk` counts
/// from 0, the message from 1.
pub(crate) fn misfit(path: &TreePath, hunk: usize) -> Failure {
    let number = hunk + 1;
    let why = format!("hunk {number} does not match the file in the version `base`");
    refused_at(path, &why).about("hunk", number)
}
