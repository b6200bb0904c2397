//! Sends a request to the program behind a port, and its response to the client.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, Version, header};
use axum::response::Response;
use elevo_agent_link::AgentLink;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::app::ports::failed;
use crate::failure::{Failure, Result};
use crate::http::layers::OfProgram;
use crate::http::ports::body::{Download, Progress, Running, Upload};
use crate::http::ports::credentials::Admitted;
use crate::http::ports::headers::{self, Known};
use crate::http::ports::location::Redirects;
use crate::http::ports::target::{Target, scheme};
use crate::http::ports::upgrade::{self, TCP};
use crate::http::shared::Shared;
use crate::platform::listen::Peer;

/// Maximum number, and maximum bytes, of the headers of a response.
const HEADERS: usize = 128;
const HEADER_BYTES: usize = 64 << 10;

/// Maximum bytes that a connection buffers.
const BUFFER: usize = 128 << 10;

/// Sends an admitted request to the program. `path` is the path with the query
/// that the program sees.
pub(super) async fn forward(
    shared: &Shared,
    admitted: Admitted,
    target: Target,
    path: Uri,
    request: Request,
) -> Result<Response> {
    let (app, sandbox, port) = (&shared.app, &target.sandbox, target.port);
    let (link, permit) = app.ports.admit(&admitted.who, sandbox, port).await?;
    let running: Running = Arc::new((permit, app.stopping.work()));
    let (mut parts, body) = request.into_parts();
    let upgrade = parts.extensions.remove::<OnUpgrade>();
    let is_websocket = headers::upgrades_to(&parts.method, &parts.headers, "websocket");
    let known = Known {
        form: &target.form,
        port,
        scheme: scheme(&shared.app.config),
        client: client(&parts),
        is_websocket,
    };
    headers::for_program(&mut parts.headers, &known);
    let public = app.config.public_url.as_ref();
    let redirects = Redirects {
        target: &target,
        method: parts.method.clone(),
        path: path.clone(),
        scheme: known.scheme,
        base: public.map_or("", |url| url.path().trim_end_matches('/')),
        is_by_key: admitted.is_by_key(),
    };
    let (progress, held) = (Progress::new(), running.clone());
    let upload = Upload::new(app, admitted.clone(), body, progress.clone(), held);
    let mut sent = hyper::Request::new(Body::new(upload));
    (*sent.method_mut(), *sent.uri_mut()) = (parts.method, path);
    (*sent.headers_mut(), *sent.version_mut()) = (parts.headers, Version::HTTP_11);
    let exchange = Exchange {
        shared,
        target: &target,
        link: &link,
    };
    let patience = app.config.limits.port_timeout;
    let (response, connection) = tokio::select! {
        exchanged = exchange.run(sent, is_websocket) => exchanged?,
        () = progress.stalled(patience) => {
            return Err(failed(port, "did not respond in time"));
        }
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return match upgrade.filter(|_| is_websocket) {
            Some(upgrade) => switched(shared, admitted, running, &redirects, response, upgrade),
            None => Err(failed(port, "changed the protocol without a request")),
        };
    }
    if !(200..600).contains(&response.status().as_u16()) {
        return Err(failed(port, "sent an invalid response"));
    }
    let name = (target.sandbox.clone(), port);
    shared.ports.keep(name, connection);
    Ok(answer(shared, admitted, running, &redirects, response))
}

fn client(parts: &Parts) -> Option<std::net::IpAddr> {
    let peer = parts.extensions.get::<ConnectInfo<Peer>>();
    peer.map(|peer| peer.0.address)
}

/// Returns the program's response, whose body the client receives while the
/// program sends it.
fn answer(
    shared: &Shared,
    admitted: Admitted,
    running: Running,
    redirects: &Redirects<'_>,
    response: Response<Incoming>,
) -> Response {
    let (parts, body) = response.into_parts();
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = parts.status;
    *answer.headers_mut() = parts.headers;
    let is_endless = is_event_stream(answer.headers());
    headers::for_client(answer.headers_mut(), redirects, parts.status);
    answer.extensions_mut().insert(OfProgram);
    let download = Download::new(&shared.app, admitted, body, running, is_endless);
    *answer.body_mut() = Body::new(download);
    answer
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Returns the response that changes the protocol, and joins the connections.
fn switched(
    shared: &Shared,
    admitted: Admitted,
    running: Running,
    redirects: &Redirects<'_>,
    mut response: Response<Incoming>,
    client: OnUpgrade,
) -> Result<Response> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = response.status();
    *answer.headers_mut() = response.headers().clone();
    headers::for_client(answer.headers_mut(), redirects, response.status());
    let program = hyper::upgrade::on(&mut response);
    let program = async move { program.await.ok().map(TokioIo::new) };
    upgrade::join(&shared.app, admitted, running, client, program);
    Ok(answer)
}

/// One request to a program.
struct Exchange<'a> {
    shared: &'a Shared,
    target: &'a Target,
    link: &'a AgentLink,
}

impl Exchange<'_> {
    /// Sends the request over a waiting or a new connection. Returns the response
    /// and the connection.
    async fn run(
        &self,
        request: hyper::Request<Body>,
        is_upgrade: bool,
    ) -> Result<(Response<Incoming>, SendRequest<Body>)> {
        let name = (self.target.sandbox.clone(), self.target.port);
        if !is_upgrade
            && let Some(copy) = repeatable(&request)
            && let Some(mut connection) = self.shared.ports.take(&name)
        {
            match connection.send_request(copy).await {
                Ok(response) => return Ok((response, connection)),
                Err(error) if error.is_parse() => return Err(self.broken(&error)),
                // The program closed the connection while it waited.
                Err(_) => {}
            }
        }
        let mut connection = self.connect().await?;
        match connection.send_request(request).await {
            Ok(response) => Ok((response, connection)),
            Err(error) => Err(self.broken(&error)),
        }
    }

    async fn connect(&self) -> Result<SendRequest<Body>> {
        let port = self.target.port;
        let tunnel = self.shared.app.ports.connect(self.link, port).await?;
        let mut builder = Builder::new();
        builder
            .max_headers(HEADERS)
            .max_header_size(HEADER_BYTES)
            .max_buf_size(BUFFER);
        let (connection, running) = builder
            .handshake(TokioIo::new(tunnel))
            .await
            .map_err(|error| self.broken(&error))?;
        // Ends when the connection is dropped or the program closes it.
        tokio::spawn(running.with_upgrades());
        Ok(connection)
    }

    /// Returns the failure of a request whose program broke the protocol.
    fn broken(&self, error: &hyper::Error) -> Failure {
        let why = match error {
            error if error.is_parse() => "sent an invalid response",
            error if error.is_user() => {
                return Failure::invalid("the body of the request cannot be read");
            }
            _ => "closed the connection without a response",
        };
        failed(self.target.port, why).caused_by(error)
    }
}

/// Returns a copy of a request that can be sent a second time if the first
/// attempt fails: it has no body, and its method is idempotent.
fn repeatable(request: &hyper::Request<Body>) -> Option<hyper::Request<Body>> {
    if !request.method().is_idempotent() || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = hyper::Request::new(Body::empty());
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    Some(copy)
}

/// Connects a client to a port by plain TCP.
pub(super) async fn open_tcp(
    shared: &Shared,
    admitted: Admitted,
    target: &Target,
    request: Request,
) -> Result<Response> {
    let (app, sandbox, port) = (&shared.app, &target.sandbox, target.port);
    let (link, permit) = app.ports.admit(&admitted.who, sandbox, port).await?;
    let running: Running = Arc::new((permit, app.stopping.work()));
    let mut parts = request.into_parts().0;
    let Some(client) = parts.extensions.remove::<OnUpgrade>() else {
        return Err(Failure::invalid(
            "the connection cannot change its protocol",
        ));
    };
    let tunnel = app.ports.connect(&link, port).await?;
    upgrade::join(app, admitted, running, client, async { Some(tunnel) });
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    for (name, value) in [(header::CONNECTION, "upgrade"), (header::UPGRADE, TCP)] {
        let value = HeaderValue::from_static(value);
        answer.headers_mut().insert(name, value);
    }
    Ok(answer)
}
