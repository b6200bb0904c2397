//! Requests to the hosts of ports, `{port}-{sandbox}.DOMAIN`. The API is not
//! served on these hosts.

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use elevo_core::ErrorCode;
use tower::ServiceExt;

use crate::app::access::principal::Principal;
use crate::app::ports::links::{Grant, Kind};
use crate::failure::{Failure, Result};
use crate::http::answer::ApiError;
use crate::http::layers::{self, Endpoint};
use crate::http::ports::credentials::{self, Admitted};
use crate::http::ports::host::{self, PortHost};
use crate::http::ports::query::{self, Cleaned};
use crate::http::ports::target::{Form, Target, scheme};
use crate::http::ports::{cookies, forward, headers, program_path};
use crate::http::shared::Shared;
use crate::platform::audit::{Entry, Level};
use crate::platform::listen::Peer;
use crate::platform::{clock, metrics};

/// Name of these requests in the log, in traces and in metrics.
const ENDPOINT: Endpoint = Endpoint("{port}-{sandbox}.DOMAIN");

/// Returns a router that sends requests for hosts of ports to programs, and all
/// others to the API.
pub(crate) fn before(api: Router, shared: Shared) -> Router {
    if shared.app.config.ports_domain.is_none() {
        return api;
    }
    let stopping = from_fn_with_state(shared.clone(), layers::refuse_when_stopping);
    let hosts = Router::new()
        .fallback(answer)
        .layer(stopping)
        .layer(from_fn(layers::observe))
        .with_state(shared.clone());
    let dispatch = async move |State(shared): State<Shared>, mut request: Request| {
        let found = host::of_request(&shared.app.config, request.uri(), request.headers());
        let router = match found {
            Ok(None) => api.clone(),
            Ok(Some(host)) => {
                request.extensions_mut().insert(host);
                request.extensions_mut().insert(ENDPOINT);
                hosts.clone()
            }
            Err(failure) => return ApiError::from(failure).into_response(),
        };
        router.oneshot(request).await.into_response()
    };
    Router::new().fallback(dispatch).with_state(shared)
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    let about = Asked::of(&request);
    let response = match in_domain_form(&shared, request).await {
        Ok(response) => response,
        Err(failure) => {
            about.record(&shared, &failure).await;
            let mut response = ApiError::from(failure).into_response();
            let uncached = HeaderValue::from_static("no-store");
            response
                .headers_mut()
                .insert(header::CACHE_CONTROL, uncached);
            response
        }
    };
    metrics::port_answered("domain", response.status().as_u16());
    response
}

/// The facts about a request for its record in the audit log.
struct Asked {
    host: Option<PortHost>,
    address: Option<String>,
}

impl Asked {
    fn of(request: &Request) -> Self {
        let peer = request.extensions().get::<ConnectInfo<Peer>>();
        Self {
            host: request.extensions().get().cloned(),
            address: peer.map(|peer| peer.0.address.to_string()),
        }
    }

    /// Records a request that was denied.
    async fn record(self, shared: &Shared, failure: &Failure) {
        let event = match failure.code.http() {
            401 => "auth.failed",
            403 => "access.refused",
            _ => return,
        };
        let mut entry = Entry {
            event,
            level: Level::Warn,
            request_id: layers::request_id(),
            status: Some(failure.code.http()),
            address: self.address,
            ..Entry::default()
        };
        if let Some(host) = self.host {
            entry
                .about
                .push(("sandbox_id", host.sandbox.as_str().into()));
            entry.about.push(("port", host.port.number().into()));
        }
        shared.app.audit.tell_refusal(entry).await;
    }
}

async fn in_domain_form(shared: &Shared, request: Request) -> Result<Response> {
    let (mut parts, body) = request.into_parts();
    let Some(host) = parts.extensions.remove::<PortHost>() else {
        return Err(Failure::new(
            ErrorCode::NotFound,
            "the host is not that of a port",
        ));
    };
    let target = Target {
        sandbox: host.sandbox,
        port: host.port,
        form: Form::Domain {
            authority: host.authority.clone(),
        },
    };
    let Cleaned { query, link } = query::clean(parts.uri.query())?;
    let rest = parts.uri.path().strip_prefix('/').unwrap_or_default();
    let path = program_path(rest, query.as_deref())?;
    let admitted = admit(shared, &mut parts, &target, link).await?;
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    let is_websocket = headers::upgrades_to(&parts.method, &parts.headers, "websocket");
    if let Some(grant) = &admitted.link
        && is_read
        && !is_websocket
    {
        let who = &admitted.who;
        return exchange(shared, who, &target, grant, (&host.authority, &path)).await;
    }
    let request = Request::from_parts(parts, body);
    forward::forward(shared, admitted, target, path, request).await
}

async fn admit(
    shared: &Shared,
    parts: &mut Parts,
    target: &Target,
    link: Option<String>,
) -> Result<Admitted> {
    let port = (&target.sandbox, target.port);
    let is_secure = scheme(&shared.app.config) == "https";
    let tokens = credentials::take_cookies(&mut parts.headers, is_secure);
    if let Some(token) = link {
        return credentials::by_link(shared, parts, &token, port).await;
    }
    if let Some(admitted) = credentials::by_cookie(shared, parts, &tokens, port).await? {
        return Ok(admitted);
    }
    let admitted = credentials::by_key(shared, parts).await?;
    admitted.ok_or_else(|| {
        let message = "this port is private, and the request has neither a link nor a key";
        Failure::new(ErrorCode::Unauthorized, message)
            .remediation("Open a link that `elevo port link` prints, or send a key in `X-API-Key`.")
    })
}

/// Exchanges the token of a link for a cookie, so that the token disappears from
/// the address.
async fn exchange(
    shared: &Shared,
    who: &Principal,
    target: &Target,
    grant: &Grant,
    (authority, path): (&str, &Uri),
) -> Result<Response> {
    let ports = &shared.app.ports;
    ports.check(who, &target.sandbox).await?;
    ports
        .record_opening(who, &target.sandbox, target.port)
        .await?;
    let token = ports.token(Kind::Cookie, grant, &target.sandbox, target.port);
    let scheme = scheme(&shared.app.config);
    let seconds = grant.expires - clock::now().seconds();
    let cookie = cookies::grant(scheme == "https", &token.await?, seconds);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    // With the host, because a path may begin with two slashes.
    let location = format!("{scheme}://{authority}{path}");
    for (name, value) in [
        (header::LOCATION, location.as_str()),
        (header::SET_COOKIE, &cookie),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        let value = HeaderValue::from_str(value);
        let value = value.map_err(|error| Failure::internal(&error))?;
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}
