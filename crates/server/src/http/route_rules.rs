//! The rules of routes: their audit event, their rate limit, their need for disk
//! space, and the kind of their body.
//!
//! A handler declares them in its description, as the extension `x-elevo`:
//!
//! ```text
//! extensions(("x-elevo" = json!({"audit": "sandbox.created", "rate": "create"})))
//! ```

use std::collections::HashMap;

use axum::http::Method;
use serde::Deserialize;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};

use crate::http::limits::Class;

/// The name of the extension. The published description does not have it.
const EXTENSION: &str = "x-elevo";

/// Maximum size of a request body, except for archives and patches.
pub(super) const BODY: usize = 2 << 20;

/// Maximum size of a request body with a patch or files. It has room for every
/// patch that `GET …/diff` returns, encoded as JSON or base64.
pub(super) const PATCH_BODY: usize = 32 << 20;

/// The rules of one route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteRule {
    /// The event in the audit log.
    pub(super) audit: Option<String>,
    pub(super) rate: Class,
    pub(super) disk: Disk,
    body: Body,
}

/// The need of a route for disk space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Disk {
    /// Its requests are rejected on a full disk.
    Needed,
    /// Its requests need very little space, and are allowed on a full disk.
    Spared,
    /// Its requests free space.
    Frees,
}

/// The kind of a request body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Body {
    #[default]
    Small,
    Patch,
    /// An archive is not read into memory.
    Archive,
}

/// The extension of a route.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    audit: Option<String>,
    #[serde(default)]
    rate: Class,
    disk: Option<Disk>,
    #[serde(default)]
    body: Body,
}

impl RouteRule {
    fn new(method: &Method, declared: Declared) -> Self {
        let default = match *method {
            Method::POST | Method::PUT => Disk::Needed,
            Method::DELETE => Disk::Frees,
            _ => Disk::Spared,
        };
        Self {
            audit: declared.audit,
            rate: declared.rate,
            disk: declared.disk.unwrap_or(default),
            body: declared.body,
        }
    }

    /// Returns the maximum size of the body, or `None` if the body is an archive.
    pub(super) fn body_limit(&self) -> Option<usize> {
        match self.body {
            Body::Small => Some(BODY),
            Body::Patch => Some(PATCH_BODY),
            Body::Archive => None,
        }
    }
}

/// The rules of all routes.
#[derive(Debug)]
pub(crate) struct RouteRules {
    /// By path and method.
    declared: HashMap<String, HashMap<Method, RouteRule>>,
    /// The rules of methods that no route declares.
    undeclared: HashMap<Method, RouteRule>,
    other: RouteRule,
}

impl RouteRules {
    /// Reads the rules from a description, and removes them from it. Panics if a
    /// handler declares a rule that does not exist.
    pub(super) fn take_from(api: &mut OpenApi) -> Self {
        let mut declared: HashMap<String, HashMap<Method, RouteRule>> = HashMap::new();
        for (path, item) in &mut api.paths.paths {
            for (method, operation) in operations(item) {
                let rule = take_declared(operation)
                    .unwrap_or_else(|error| panic!("the rules of {method} {path}: {error}"));
                let rules = declared.entry(path.clone()).or_default();
                rules.insert(method.clone(), RouteRule::new(&method, rule));
            }
        }
        let by_default = |method: Method| {
            let rule = RouteRule::new(&method, Declared::default());
            (method, rule)
        };
        let methods = [Method::POST, Method::PUT, Method::DELETE];
        Self {
            declared,
            undeclared: methods.map(by_default).into(),
            other: RouteRule::new(&Method::GET, Declared::default()),
        }
    }

    /// Returns the rules of a route.
    pub(super) fn of(&self, method: &Method, path: &str) -> &RouteRule {
        let declared = self.declared.get(path).and_then(|rules| rules.get(method));
        let found = declared.or_else(|| self.undeclared.get(method));
        found.unwrap_or(&self.other)
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PUT, &mut item.put),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
    ];
    let there = all.into_iter();
    there.filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn take_declared(operation: &mut Operation) -> serde_json::Result<Declared> {
    let extensions = operation.extensions.as_mut();
    let found = extensions.and_then(|extensions| extensions.remove(EXTENSION));
    if operation
        .extensions
        .as_ref()
        .is_some_and(|left| left.is_empty())
    {
        operation.extensions = None;
    }
    found.map_or_else(|| Ok(Declared::default()), serde_json::from_value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::rules;

    #[test]
    fn every_request_that_changes_something_is_audited() {
        let mut count = 0;
        for (path, methods) in &rules().declared {
            for (method, rule) in methods {
                count += 1;
                let is_change = *method != Method::GET;
                assert!(rule.audit.is_some() || !is_change, "{method} {path}");
            }
        }
        assert!(count > 70, "only {count} routes were found");
    }

    #[test]
    fn deletions_and_reads_need_no_disk_space() {
        for method in [Method::DELETE, Method::GET, Method::PATCH] {
            let rule = rules().of(&method, "/api/v1/projects/{id}");
            assert_ne!(rule.disk, Disk::Needed);
        }
        let disk = |path| rules().of(&Method::POST, path).disk;
        assert_eq!(disk("/api/v1/sandboxes"), Disk::Needed);
        assert_eq!(disk("/api/v1/gc"), Disk::Frees);
        assert_eq!(disk("/api/v1/sandboxes/{id}/start"), Disk::Spared);
        assert_eq!(disk("/no/such/route"), Disk::Needed);
    }

    #[test]
    fn routes_have_the_rates_and_bodies_that_they_declare() {
        let rule = |method, path| rules().of(&method, path);
        let create = rule(Method::POST, "/api/v1/sandboxes");
        assert_eq!(
            (create.rate, create.body_limit()),
            (Class::Create, Some(BODY))
        );
        let run = rule(Method::POST, "/api/v1/sandboxes/{id}/process/run");
        assert_eq!(run.rate, Class::Command);
        assert_eq!(rule(Method::GET, "/api/v1/sandboxes").rate, Class::Other);
        let apply = rule(Method::POST, "/api/v1/projects/{id}/apply");
        assert_eq!(apply.body_limit(), Some(PATCH_BODY));
        assert_eq!(rule(Method::POST, "/api/v1/snapshots").body_limit(), None);
    }

    #[test]
    fn the_published_description_has_no_rules() {
        assert!(!crate::http::openapi_json().contains(EXTENSION));
    }
}
