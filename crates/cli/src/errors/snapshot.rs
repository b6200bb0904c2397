use elevo_core::InvalidPath;
use elevo_objects::SnapshotId;
use serde_json::{Value, json};

use super::described::{Advice, Described, describe};
use super::exit::Exit;
use crate::output::format::{path_text, short};

/// Errors of naming and comparing snapshots.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotProblem {
    #[error("there is no snapshot `{0}`")]
    UnknownRevision(String),
    #[error("more than one snapshot id starts with `{text}`: {} …", .candidates.join(", "))]
    AmbiguousRevision {
        text: String,
        candidates: Vec<String>,
    },
    #[error("`{0}` is not the name of a snapshot")]
    InvalidRevision(String),
    #[error("nothing has been committed to this store yet")]
    NothingCommitted,
    #[error("no snapshot was committed from or checked out into this directory")]
    NoCheckout,
    #[error("`{text}` goes back further than the history, which ends after {steps} steps")]
    NoAncestor { text: String, steps: u64 },
    #[error("head is {}, but this directory is based on {}", short_or_nothing(.head), short_or_nothing(.here))]
    HeadElsewhere {
        here: Option<SnapshotId>,
        head: Option<SnapshotId>,
    },
    #[error("`{}` is not a path within a snapshot", path_text(.path))]
    NotATreePath { path: Vec<u8>, source: InvalidPath },
    #[error("there are more than {limit} changes, too many to detect renames")]
    TooManyChanges { limit: usize },
}

fn short_or_nothing(id: &Option<SnapshotId>) -> String {
    id.map_or("nothing".into(), short)
}

impl SnapshotProblem {
    pub(super) fn describe(&self) -> Described {
        let not_found = |details, advice: &'static str| {
            describe(Exit::NotFound, "snapshot_not_found", details, advice)
        };
        match self {
            Self::UnknownRevision(text) => not_found(
                json!({ "revision": text }),
                "REV is `head`, `@`, a tag, at least 6 digits of an id, or one of these with \
                 `~N`; `elevo tag` lists the tags and `elevo log --all` all snapshots",
            ),
            Self::AmbiguousRevision { text, candidates } => describe(
                Exit::NotFound,
                "snapshot_ambiguous",
                json!({ "revision": text, "candidates": candidates }),
                "give more digits",
            ),
            Self::InvalidRevision(text) => describe(
                Exit::Usage,
                "revision_invalid",
                json!({ "revision": text }),
                "REV is `head`, `@`, a tag, at least 6 digits of an id, or one of these with \
                 `~N`; `diff` and `log` also take `A..B`, and `cat`, `ls` and `export` take \
                 `REV:PATH`",
            ),
            Self::NothingCommitted => {
                not_found(Value::Null, "`elevo commit` creates the first snapshot")
            }
            Self::NoCheckout => not_found(
                Value::Null,
                "`@` is the snapshot of the last commit or checkout of this directory; name \
                 another snapshot",
            ),
            Self::NoAncestor { text, steps } => describe(
                Exit::NotFound,
                "snapshot_not_found",
                json!({ "revision": text, "steps": steps }),
                Advice::None,
            ),
            Self::HeadElsewhere { here, head } => describe(
                Exit::Conflict,
                "head_elsewhere",
                json!({
                    "head": head.map(|id| id.to_string()),
                    "parent": here.map(|id| id.to_string()),
                }),
                "`commit --parent head` saves this directory as the successor of head, without \
                 the changes that only head has; `commit --detach` saves it without moving head",
            ),
            Self::NotATreePath { path, .. } => describe(
                Exit::Usage,
                "path_invalid",
                json!({ "path": String::from_utf8_lossy(path) }),
                "paths start at the root of the snapshot, without a leading slash",
            ),
            Self::TooManyChanges { limit } => describe(
                Exit::Failed,
                "too_many_changes",
                json!({ "limit": limit }),
                "leave out --renames, or name paths to compare fewer files",
            ),
        }
    }
}
