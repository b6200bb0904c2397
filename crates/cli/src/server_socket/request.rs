//! The request of a call.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

pub(super) const VERSION: u32 = 1;

/// The request of a caller.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) version: u32,
    pub(super) args: Vec<String>,
    pub(super) here: String,
    pub(super) author: String,
    pub(super) terminal: bool,
    pub(super) to_file: bool,
    pub(super) colour: bool,
    pub(super) colour_errors: bool,
}

impl Request {
    pub(super) fn args(&self) -> Option<Vec<OsString>> {
        self.args.iter().map(|arg| decode(arg)).collect()
    }

    pub(super) fn here(&self) -> Option<PathBuf> {
        let here = PathBuf::from(decode(&self.here)?);
        here.is_absolute().then_some(here)
    }
}

fn decode(text: &str) -> Option<OsString> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    Some(OsString::from_vec(bytes))
}
