//! The requests that need space on the disk.

use axum::http::Method;

/// `POST` and `PUT` requests that are allowed on a full disk, because they free
/// space or need very little. All other `POST` and `PUT` requests are then
/// rejected.
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

/// Returns whether a request is rejected on a full disk.
pub(super) fn needs_room(method: &Method, path: &str) -> bool {
    if !matches!(*method, Method::POST | Method::PUT) {
        return false;
    }
    let route = format!("{method} {path}");
    !SPARED.contains(&route.as_str())
}

/// Requests that free space, in addition to all `DELETE` requests.
const GIVE_BACK: &[&str] = &[
    "POST /api/v1/gc",
    "POST /api/v1/sandboxes/batch-delete",
    "POST /api/v1/sandboxes/{id}/stop",
];

/// Returns whether a request frees space on a full disk.
pub(super) fn gives_back(method: &Method, path: &str) -> bool {
    let route = format!("{method} {path}");
    *method == Method::DELETE || GIVE_BACK.contains(&route.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_route_exists() {
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
