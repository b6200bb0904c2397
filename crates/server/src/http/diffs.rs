//! The parameters and responses of diffs.

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use elevo_api::DiffFormat;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::files::diff::{Compared, DiffOptions};
use crate::failure::{Failure, Result};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WorkspaceDiff {
    /// The snapshot to compare with: `start`, the default, for the one that the
    /// workspace was created from (of a project: the version that it was created
    /// from, last refreshed to or last merged into), `last` for the newest
    /// snapshot of the workspace, or the id or name of a snapshot.
    pub(super) from: Option<String>,
    /// `json`, `patch` in the format of `git apply`, or `stat` for line counts.
    #[param(inline)]
    format: Option<DiffFormat>,
    /// Maximum number of changes in the response; 1000 by default.
    #[param(minimum = 1, maximum = 100000)]
    limit: Option<u32>,
}

impl WorkspaceDiff {
    pub(super) fn options(&self) -> Result<DiffOptions> {
        options(self.format, self.limit)
    }
}

pub(super) fn options(format: Option<DiffFormat>, limit: Option<u32>) -> Result<DiffOptions> {
    let limit = limit.unwrap_or(1000);
    match limit {
        1..=100_000 => Ok(DiffOptions {
            format: format.unwrap_or_default(),
            limit: limit as usize,
        }),
        _ => Err(Failure::invalid("`limit` must be 1 to 100000")),
    }
}

impl IntoResponse for Compared {
    fn into_response(self) -> Response {
        match self {
            Self::Changes(diff) => Json(diff).into_response(),
            Self::Stat(stat) => Json(stat).into_response(),
            Self::Patch(patch) => ([(CONTENT_TYPE, "text/x-diff")], patch).into_response(),
        }
    }
}
