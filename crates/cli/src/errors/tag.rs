use elevo_objects::SnapshotId;
use serde_json::json;

use super::described::{Advice, Described, describe};
use super::exit::Exit;
use crate::output::format::short;

/// Errors of tags.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TagProblem {
    #[error("the tag `{name}` already exists, at {}", short(*.at))]
    TagExists { name: String, at: SnapshotId },
    #[error("there is no tag `{0}`")]
    NoSuchTag(String),
    #[error("`{name}` cannot be a tag: {why}")]
    InvalidTag { name: String, why: &'static str },
}

impl TagProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::TagExists { name, at } => describe(
                Exit::Conflict,
                "tag_exists",
                json!({ "tag": name, "snapshot": at.to_string() }),
                "`--move` moves it",
            ),
            Self::NoSuchTag(name) => describe(
                Exit::NotFound,
                "tag_not_found",
                json!({ "tag": name }),
                "`elevo tag` lists tags",
            ),
            Self::InvalidTag { name, .. } => describe(
                Exit::Usage,
                "tag_invalid",
                json!({ "tag": name }),
                Advice::None,
            ),
        }
    }
}
