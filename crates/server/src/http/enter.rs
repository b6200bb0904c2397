//! Admits a request: checks its key, its rate limits, and the space for it on
//! the disk and in memory. Later layers find the result in the request's
//! extensions.

use std::sync::Arc;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use elevo_core::{Id, SandboxId, is_id_text};

use crate::app::access::principal::Principal;
use crate::failure::{Failure, Result};
use crate::http::answer::ApiError;
use crate::http::limits::Quotas;
use crate::http::route_rules::{Disk, RouteRule};
use crate::http::shared::Shared;
use crate::http::{origins, request, streams};
use crate::platform::listen::Peer;
use crate::platform::share;

/// The principal of an admitted request, or the reason why it was not admitted.
/// A request without a key does not have this extension.
#[derive(Clone, Debug)]
pub(super) struct Entered(std::result::Result<Principal, Arc<Failure>>);

impl Entered {
    pub(super) fn who(&self) -> Result<Principal> {
        self.0.clone().map_err(|failure| failure.again())
    }
}

/// Maximum size of a body that does not count towards the tenant's share of
/// memory. The limit on connections bounds the memory of such bodies.
const SMALL: usize = 256 << 10;

/// Prefixes of the routes whose handlers use the engine, the store or merges.
const ENGINE: &[&str] = &[
    "/api/v1/projects",
    "/api/v1/reviews",
    "/api/v1/snapshots/",
    "/api/v1/workspaces",
];

/// Prefix of the paths that have the id of a sandbox.
const SANDBOXES: &str = "/api/v1/sandboxes/";

/// Admits a request. A request that is not admitted continues as well, because
/// its route may not need a key.
pub(super) async fn enter(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let Some(path) = path.filter(|path| path.as_str().starts_with("/api/")) else {
        return next.run(request).await;
    };
    let (mut parts, body) = request.into_parts();
    let mut quotas = Quotas::default();
    let entered = admit(&shared, &parts, path.as_str(), &mut quotas).await;
    let Some(entered) = entered else {
        return next.run(Request::from_parts(parts, body)).await;
    };
    let mut held = None;
    if let Ok(who) = &entered
        && let Some(bytes) = body_bytes(
            &parts.headers,
            shared.rules.of(&parts.method, path.as_str()),
        )
    {
        // Twice the size: once for the text, once for the values that are
        // parsed from it.
        held = shared.app.stores.shares.hold(who.tenant, 2 * bytes);
        if held.is_none() {
            let failure = ApiError::from(share::too_many_bytes());
            return (quotas.headers(), failure).into_response();
        }
    }
    parts.extensions.insert(Entered(entered.map_err(Arc::new)));
    let mut response = next.run(Request::from_parts(parts, body)).await;
    drop(held);
    for (name, value) in &quotas.headers() {
        // A handler that counts more than one request has set newer values.
        let headers = response.headers_mut();
        headers.entry(name).or_insert_with(|| value.clone());
    }
    response
}

/// Checks the key of a request, its rate limits and the space for it. Returns
/// `None` if the request has no key. Sets `quotas` to the state of the rate
/// limits.
async fn admit(
    shared: &Shared,
    parts: &Parts,
    path: &str,
    quotas: &mut Quotas,
) -> Option<Result<Principal>> {
    let secret = request::secret(&parts.headers);
    let ticket = || streams::ticket(parts, path);
    let presented = secret.map(Presented::Key);
    let presented = presented.or_else(|| ticket().map(Presented::Ticket))?;
    let has_ticket = matches!(presented, Presented::Ticket(_));
    if let Err(failure) = origins::check(&shared.app.config, parts, has_ticket) {
        return Some(Err(failure));
    }
    let peer = parts.extensions.get::<ConnectInfo<Peer>>();
    let peer = peer.map(|ConnectInfo(peer)| peer);
    let looking = async {
        // Requests with unknown keys must not occupy all readers of the
        // catalog.
        let _turn = match peer.is_some_and(|peer| peer.place.is_known()) {
            true => None,
            false => shared.rates.strangers.acquire().await.ok(),
        };
        let app = &shared.app;
        match presented {
            Presented::Key(secret) => {
                let sandbox = sandbox_in(parts.uri.path());
                app.principals.authenticate(secret, sandbox.as_ref()).await
            }
            Presented::Ticket(ticket) => {
                let ticket = app.tickets.take(&ticket, parts.uri.path())?;
                app.principals.again(ticket.tenant, &ticket.key).await
            }
        }
    };
    let who = match looking.await {
        Ok(found) => found,
        Err(failure) => return Some(Err(failure)),
    };
    let checking = async {
        crate::platform::audit::asked_by(&who);
        // From here on, the connection counts towards the limit of the key.
        if let Some(peer) = peer {
            peer.place.show(&who.key)?;
        }
        let rules = shared.rules.of(&parts.method, path);
        let taken;
        (*quotas, taken) = shared.rates.take(&who, rules.rate, 1);
        taken?;
        if rules.disk == Disk::Needed {
            let app = &shared.app;
            app.room.check()?;
            app.tenants
                .check_stored(who.tenant, &who.tenant_limits)
                .await?;
        }
        Ok(())
    };
    let checked = checking.await;
    Some(checked.map(|()| who))
}

/// Returns the id of the sandbox that a request is about, if its path has a
/// complete id. A name is looked up later, when the key is known.
fn sandbox_in(path: &str) -> Option<SandboxId> {
    let text = path.strip_prefix(SANDBOXES)?.split('/').next()?;
    let is_id = is_id_text(SandboxId::PREFIX, text);
    is_id.then(|| text.parse().ok())?
}

/// The secret of a request: a key, or a ticket for a stream.
enum Presented<'a> {
    Key(&'a str),
    Ticket(String),
}

/// Returns the size of the body if it is read into memory and larger than
/// [`SMALL`].
fn body_bytes(headers: &HeaderMap, rule: &RouteRule) -> Option<usize> {
    let most = rule.body_limit()?;
    let length = match headers.get(header::CONTENT_LENGTH) {
        Some(length) => length.to_str().ok()?.parse::<usize>().ok()?.min(most),
        None if headers.contains_key(header::TRANSFER_ENCODING) => most,
        None => return None,
    };
    (length > SMALL).then_some(length)
}

/// Runs requests of [`ENGINE`] in the tenant's share of threads, because they
/// may compute for long or wait for the disk.
pub(super) async fn apart(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or("", MatchedPath::as_str);
    let is_heavy = ENGINE.iter().any(|prefix| path.starts_with(prefix));
    let who = request.extensions().get::<Entered>();
    let who = who.and_then(|entered| entered.0.as_ref().ok());
    match who.filter(|_| is_heavy).map(|who| who.tenant) {
        Some(tenant) => {
            let shares = &shared.app.stores.shares;
            shares.apart(tenant, next.run(request)).await
        }
        None => next.run(request).await,
    }
}
