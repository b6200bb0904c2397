//! The state that every handler receives, and the limits of bodies.

use std::sync::Arc;

use crate::app::App;
use crate::http::limits::RateLimits;

/// The state that every handler receives.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) app: Arc<App>,
    pub(crate) rates: Arc<RateLimits>,
}

/// Maximum size of a request body, except for archives and patches.
pub(super) const BODY: usize = 2 << 20;

/// Maximum size of a request body with a patch or files. It has room for every
/// patch that `GET …/diff` returns, encoded as JSON or base64.
pub(super) const PATCH_BODY: usize = 32 << 20;

/// Returns the maximum size of a route's body, or `None` if the body is an
/// archive, which is not read into memory.
pub(super) fn body_limit(path: &str) -> Option<usize> {
    match path {
        "/api/v1/snapshots"
        | "/api/v1/sandboxes/{id}/archive"
        | "/api/v1/projects/{id}/archive" => None,
        "/api/v1/projects/{id}/apply" => Some(PATCH_BODY),
        _ => Some(BODY),
    }
}
