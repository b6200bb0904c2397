//! The requests that need room on the disk.

use axum::http::Method;

/// Requests that are carried out on a full disk as well, beside all that only
/// read or delete: they give room back, or take next to none. A request that is
/// not here is refused there.
const SPARED: &[&str] = &[
    "POST /api/v1/gc",
    "POST /api/v1/reviews/{id}/resolve",
    "POST /api/v1/sandboxes/batch-delete",
    "POST /api/v1/sandboxes/{id}/extend",
    "POST /api/v1/sandboxes/{id}/process/run",
    "POST /api/v1/sandboxes/{id}/process/{cmdId}/input",
    "POST /api/v1/sandboxes/{id}/process/{cmdId}/kill",
    "POST /api/v1/sandboxes/{id}/pty",
    "POST /api/v1/sandboxes/{id}/pty/{ptyId}/resize",
    "POST /api/v1/sandboxes/{id}/start",
    "POST /api/v1/sandboxes/{id}/stop",
    "POST /api/v1/webhooks/{id}/deliveries/{event}/replay",
    "POST /api/v1/workspaces/{id}/complete",
    "PUT /api/v1/projects/{id}/policy",
];

/// Whether a request is refused on a full disk.
pub(super) fn needs_room(method: &Method, path: &str) -> bool {
    if !matches!(*method, Method::POST | Method::PUT) {
        return false;
    }
    let route = format!("{method} {path}");
    !SPARED.contains(&route.as_str())
}

/// Requests beside deletions that give room back.
const GIVE_BACK: &[&str] = &[
    "POST /api/v1/gc",
    "POST /api/v1/sandboxes/batch-delete",
    "POST /api/v1/sandboxes/{id}/stop",
];

/// Whether a full disk is left by this request.
pub(super) fn gives_back(method: &Method, path: &str) -> bool {
    let route = format!("{method} {path}");
    *method == Method::DELETE || GIVE_BACK.contains(&route.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spared_request_is_one_of_the_api() {
        let api: serde_json::Value = serde_json::from_str(&crate::http::openapi_json()).unwrap();
        for route in SPARED.iter().chain(GIVE_BACK) {
            let (method, path) = route.split_once(' ').unwrap();
            let found = &api["paths"][path][method.to_lowercase()];
            assert!(found.is_object(), "{route}");
        }
    }

    #[test]
    fn deletions_and_reads_need_no_room() {
        for method in [Method::DELETE, Method::GET, Method::PATCH] {
            assert!(!needs_room(&method, "/api/v1/projects/{id}"));
        }
        assert!(needs_room(&Method::POST, "/api/v1/sandboxes"));
        assert!(!needs_room(&Method::POST, "/api/v1/gc"));
    }
}
