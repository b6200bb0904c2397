//! Formats of the parts of an installation.
//!
//! The data directory has a format as well: the layout of its files. Format 1
//! does not state its version. A later format has a file `FORMAT` with the line
//! `elevo server VERSION`.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context;

use crate::platform::installation::{Installation, Refusal, tenant_from};

/// The format of the data directory that this version reads and writes.
const KNOWN: u32 = 1;

const FILE: &str = "FORMAT";
const WORDS: &str = "elevo server ";

/// Fails if a newer version of Elevo wrote a part of the installation. Changes
/// nothing. The catalog is checked when it is read.
pub(super) fn check(places: &Installation) -> anyhow::Result<()> {
    check_directory(&places.data)?;
    places.store.check_format()?;
    elevo_audit::check_format(&places.data.join("audit"))?;
    let root = &places.root;
    let checked = check_registries(root);
    checked.with_context(|| format!("cannot use the workspaces in {}", root.display()))
}

fn check_directory(data: &Path) -> anyhow::Result<()> {
    let path = data.join(FILE);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let found = text.strip_prefix(WORDS);
    let found = found.and_then(|found| found.trim_end().parse().ok());
    let found = found.with_context(|| {
        let path = path.display();
        format!("{path} does not have the format of a data directory; check DATA_DIR")
    })?;
    match found {
        KNOWN => Ok(()),
        found => Err(Refusal::NewerDirectory {
            data: data.into(),
            found,
            known: KNOWN,
        }
        .into()),
    }
}

fn check_registries(root: &Path) -> anyhow::Result<()> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().and_then(tenant_from).is_some() {
            elevo_workspace::check_format(&entry.path())?;
        }
    }
    Ok(())
}
