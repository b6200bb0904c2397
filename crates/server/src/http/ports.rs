//! Requests to programs that listen on ports of sandboxes.
//!
//! ```text
//! /api/v1/sandboxes/{id}/ports/{port}/…  ─► path_form ─┐
//! {port}-{id}.DOMAIN  ─► domain ───────────────────────┴► forward ─► pool ─► tunnel
//! ```

mod body;
mod cookies;
mod credentials;
pub(crate) mod domain;
mod forward;
mod headers;
mod host;
mod location;
pub(crate) mod pool;
mod query;
mod target;
mod upgrade;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use elevo_api as api;
use elevo_core::{ErrorCode, SandboxId};

use crate::app::ports::port::Port;
use crate::app::requests::once::Once;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::http::answer::{Answer, ApiError};
use crate::http::description::Binary;
use crate::http::ports::query::{Cleaned, LINK};
use crate::http::ports::target::{Form, Target, scheme};
use crate::http::request::{MaybeBody, Path, Who};
use crate::http::shared::Shared;
use crate::platform::metrics;

/// Create a link to a port
///
/// The holder of the link needs no key. A browser that opens a link with a host
/// of `PORTS_DOMAIN` gets a cookie for that host, and the token disappears from
/// the address. Without `PORTS_DOMAIN`, the token is valid for each request that
/// has it in the query. A link ends with the key that created it, with the
/// sandbox, and at `expiresAt`. Requests with the same `Idempotency-Key` create
/// another link each.
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/ports/{port}/link", operation_id = "ports_link", tag = "ports",
    params(("id" = String, Path), ("port" = u16, Path, minimum = 1)),
    request_body = api::CreatePortLink,
    extensions(("x-elevo" = json!({"audit": "port.linked", "disk": "spared"}))),
    responses((status = 201, description = "The link", body = api::PortLink))
)]
pub(super) async fn link(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, port)): Path<(SandboxId, String)>,
    headers: HeaderMap,
    once: Once,
    MaybeBody(wish): MaybeBody<api::CreatePortLink>,
) -> Answer<(StatusCode, Json<api::PortLink>)> {
    once.do_not_store();
    let port: Port = port.parse()?;
    crate::platform::audit::detail("port", port.number());
    let created = shared.app.ports.create_link(&who, &id, port, &wish).await;
    let (token, expires_at) = created?;
    crate::platform::audit::detail("expires", expires_at.as_str());
    let base = base(&shared.app.config, &headers, &id, port);
    let link = api::PortLink {
        url: format!("{base}/?{LINK}={token}"),
        expires_at,
    };
    Ok((StatusCode::CREATED, Json(link)))
}

/// Returns the address of a port, without a slash at its end.
fn base(config: &Config, headers: &HeaderMap, id: &SandboxId, port: Port) -> String {
    let scheme = scheme(config);
    if let Some(domain) = &config.ports_domain {
        return format!("{scheme}://{port}-{id}.{domain}");
    }
    let path = format!("/api/v1/sandboxes/{id}/ports/{port}");
    if let Some(url) = &config.public_url {
        return format!("{}{path}", url.as_str().trim_end_matches('/'));
    }
    let host = headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let host = host.map_or(config.api.to_string(), str::to_owned);
    format!("{scheme}://{host}{path}")
}

/// Send a request to a port
///
/// Every method works, with and without a path, and a WebSocket. The program
/// that listens on the port of 127.0.0.1 gets the request with the path after
/// the port, `Host: localhost:PORT` and the headers `X-Forwarded-For`, `-Proto`,
/// `-Host` and `-Prefix`; it gets neither the key nor cookies. Its response has
/// `Content-Security-Policy: sandbox` and no cookies, because it shares the
/// origin of the API; `PORTS_DOMAIN` gives each port a host without these
/// limits. A `GET` with `Upgrade: elevo-tcp` opens a plain TCP connection.
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}/ports/{port}/{path}", operation_id = "ports_request", tag = "ports",
    params(
        ("id" = String, Path),
        ("port" = u16, Path, minimum = 1),
        ("path" = String, Path, description = "The path at the program, which may have several parts"),
        ("elevo-link" = Option<String>, Query, description = "The token of a link, in place of a key"),
    ),
    responses((status = 200, description = "The response of the program, with any status and any headers", body = Binary, content_type = "application/octet-stream"))
)]
#[allow(
    dead_code,
    reason = "only describes `path_form`, which has every method"
)]
pub(super) fn request() {}

/// Adds the routes of requests to ports. They have neither rate limits nor
/// idempotency keys, and their bodies are streamed.
pub(super) fn add_to(router: Router<Shared>) -> Router<Shared> {
    use axum::routing::{any, get};
    let base = "/api/v1/sandboxes/{id}/ports/{port}";
    router
        .route(base, any(path_form))
        .route(&format!("{base}/"), any(path_form))
        .route(&format!("{base}/{{*path}}"), any(path_form))
        // `POST` creates a link.
        .route(
            &format!("{base}/link"),
            get(path_form)
                .put(path_form)
                .patch(path_form)
                .delete(path_form)
                .options(path_form),
        )
}

/// Responds to a request in the path form.
async fn path_form(State(shared): State<Shared>, request: Request) -> Response {
    let response = match in_path_form(&shared, request).await {
        Ok(response) => response,
        Err(failure) => {
            let mut response = ApiError::from(failure).into_response();
            headers::isolate(response.headers_mut());
            response
        }
    };
    metrics::port_answered("path", response.status().as_u16());
    response
}

async fn in_path_form(shared: &Shared, request: Request) -> Result<Response> {
    let (mut parts, body) = request.into_parts();
    let whole = parts.uri.path().to_owned();
    // "", "api", "v1", "sandboxes", id, "ports", port, rest
    let mut pieces = whole.splitn(8, '/').skip(4);
    let id = pieces.next().unwrap_or_default();
    let port = pieces.nth(1).unwrap_or_default();
    let rest = pieces.next().unwrap_or_default();
    let prefix = whole[..whole.len() - rest.len()].trim_end_matches('/');
    let Cleaned { query, link } = query::clean(parts.uri.query())?;
    let admitted = match &link {
        Some(token) => {
            let target = (
                &id.parse().map_err(|_| Failure::no_sandbox(id))?,
                port.parse()?,
            );
            Some(credentials::by_link(shared, &mut parts, token, target).await?)
        }
        None => credentials::by_key(shared, &mut parts).await?,
    };
    let admitted = admitted.ok_or_else(|| {
        Failure::new(
            ErrorCode::Unauthorized,
            "the request has neither a key nor a link",
        )
    })?;
    let target = Target {
        sandbox: shared.app.names.sandbox(&admitted.who, id).await?,
        port: port.parse()?,
        form: Form::Path {
            host: parts.headers.get(header::HOST).cloned(),
            prefix: prefix.to_owned(),
        },
    };
    let is_tcp = headers::upgrades_to(&parts.method, &parts.headers, upgrade::TCP);
    let is_worker = parts.headers.contains_key("service-worker")
        || parts
            .headers
            .get("sec-fetch-dest")
            .is_some_and(|dest| dest == "serviceworker");
    if is_worker {
        let message = "a program in a sandbox cannot install a service worker for the API";
        return Err(Failure::new(ErrorCode::Forbidden, message));
    }
    let path = program_path(rest, query.as_deref())?;
    let request = Request::from_parts(parts, body);
    match is_tcp && link.is_none() {
        true => forward::open_tcp(shared, admitted, &target, request).await,
        false => forward::forward(shared, admitted, target, path, request).await,
    }
}

/// Returns the path with the query for a program. `rest` has no first slash.
fn program_path(rest: &str, query: Option<&str>) -> Result<Uri> {
    let path = match query {
        Some(query) => format!("/{rest}?{query}"),
        None => format!("/{rest}"),
    };
    let invalid = |_| Failure::invalid("the path of the request is not valid");
    path.parse().map_err(invalid)
}
