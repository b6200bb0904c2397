//! The client of the REST API: finds a server, sends requests, follows output
//! across lost connections. Independent of commands and of what they print.

use std::time::Duration;

use bytes::Bytes;
use elevo_api::ErrorEnvelope;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::error::{ClientError, Result};
use crate::client::trust::Trust;

/// How long a server may take to accept a connection.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// Maximum time for a response: a snapshot of a large workspace takes minutes.
const ANSWER: Duration = Duration::from_secs(15 * 60);

/// Maximum time without data on a stream: the server sends a keep-alive every 15
/// seconds.
pub(super) const SILENCE: Duration = Duration::from_secs(45);

/// Maximum bytes of a response that is not a stream.
const LARGEST: usize = 64 << 20;

/// A connection to a server, with the key to authenticate.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    pub(super) base: Url,
    pub(super) key: HeaderValue,
    /// The data directory that named the server, to find it again after a restart.
    pub(super) found: Option<crate::local::data_directory::DataDirectory>,
}

impl Client {
    pub(crate) fn new(
        base: &str,
        key: Option<&str>,
        found: Option<crate::local::data_directory::DataDirectory>,
        trust: &Trust,
    ) -> std::result::Result<Self, ClientError> {
        let base = address(base)?;
        elevo_server::choose_cryptography();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            // Terminals and ports upgrade their connections, which HTTP/2 cannot.
            .http1_only()
            .user_agent(concat!("elevo/", env!("CARGO_PKG_VERSION")));
        // A server on this machine is reached without a proxy and, without TLS, on a
        // system that has no certificates.
        let http = match (is_loopback(&base), base.scheme()) {
            (true, "http") => http.no_proxy().tls_certs_only([]),
            (true, _) => trust.apply(http.no_proxy())?,
            (false, _) => trust.apply(http)?,
        };
        let http = http.build().map_err(ClientError::Setup)?;
        let key = HeaderValue::from_str(&format!("Bearer {}", key.unwrap_or_default()));
        let mut key = key.map_err(|_| ClientError::KeyUnusable)?;
        key.set_sensitive(true);
        Ok(Self {
            http,
            base,
            key,
            found,
        })
    }

    /// The server's address, without a trailing slash.
    pub(crate) fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The host and port of the server's address.
    pub(crate) fn authority(&self) -> String {
        let host = self.base.host_str().unwrap_or_default();
        let host = host.trim_matches(['[', ']']);
        match self.base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Whether requests leave this machine without TLS.
    pub(crate) fn is_exposed(&self) -> bool {
        self.base.scheme() == "http" && !is_loopback(&self.base)
    }

    /// Reads the server's address again: a restart may have changed it.
    pub(crate) fn look_again(&mut self) {
        let running = self
            .found
            .as_ref()
            .and_then(crate::local::data_directory::DataDirectory::running);
        if let Some(url) = running.and_then(|running| address(&running.url()).ok()) {
            self.base = url;
        }
    }

    /// The URL of a path; the segments may contain any characters.
    pub(crate) fn at(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// A request that carries the key.
    pub(crate) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let request = self.http.request(method, self.at(path));
        request.header(AUTHORIZATION, self.key.clone())
    }

    /// Sends a request. Returns an error if the status is not a success.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let answer = request.send().await.map_err(|error| self.lost(error))?;
        match answer.status().is_success() {
            true => Ok(answer),
            false => Err(self.refused(answer).await),
        }
    }

    /// Sends a request and parses the response as JSON.
    pub(crate) async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let answer = self.send(request.timeout(ANSWER)).await?;
        let body = self.body(answer).await?;
        serde_json::from_slice(&body).map_err(ClientError::Answer)
    }

    /// Like [`Self::json`], without a timeout: the request may take hours.
    pub(crate) async fn json_at_last<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T> {
        let answer = self.send(request).await?;
        let body = self.body(answer).await?;
        serde_json::from_slice(&body).map_err(ClientError::Answer)
    }

    /// Parses the response as JSON, regardless of its status.
    pub(crate) async fn any_json<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T> {
        let request = self.request(Method::GET, path).timeout(ANSWER);
        let answer = request.send().await.map_err(|error| self.lost(error))?;
        let body = self.body(answer).await?;
        serde_json::from_slice(&body).map_err(ClientError::Answer)
    }

    /// Sends a request and ignores the body of the response.
    pub(crate) async fn done(&self, request: RequestBuilder) -> Result<()> {
        self.send(request.timeout(ANSWER)).await?;
        Ok(())
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T> {
        self.json(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T> {
        self.json(self.request(Method::POST, path).json(body)).await
    }

    /// Reads a body, up to the maximum size.
    pub(crate) async fn body(&self, mut answer: Response) -> Result<Bytes> {
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| self.lost(error))? {
            if body.len() + piece.len() > LARGEST {
                return Err(ClientError::TooLarge(LARGEST));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.into())
    }

    /// Classifies a transport error: the server was not reached, or the connection
    /// was lost.
    pub(crate) fn lost(&self, source: reqwest::Error) -> ClientError {
        let url = self.url().to_owned();
        match source.is_connect() || source.is_builder() {
            true => ClientError::Unreachable { url, source },
            false => ClientError::Broken { url, source },
        }
    }

    pub(crate) async fn refused(&self, answer: Response) -> ClientError {
        let status = answer.status().as_u16();
        let body = match self.body(answer).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        match serde_json::from_slice::<ErrorEnvelope>(&body) {
            Ok(envelope) => ClientError::Refused(Box::new(envelope.error)),
            Err(_) => ClientError::NotOurs {
                url: self.url().to_owned(),
                status,
            },
        }
    }
}

/// Parses the address of a server.
fn address(text: &str) -> Result<Url> {
    let wrong = |why: &str| ClientError::Address {
        text: text.into(),
        why: why.into(),
    };
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(wrong("it must begin with http:// or https://")),
    }
}

fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let host = host.trim_matches(['[', ']']);
        let ip = host.parse::<std::net::IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_path_stay_parts() {
        let client = Client::known("http://127.0.0.1:8080", Some("k")).unwrap();
        let url = client.at(&["api", "v1", "templates", "a/b:1?x"]);
        assert_eq!(url.path(), "/api/v1/templates/a%2Fb:1%3Fx");
        let below = Client::known("http://localhost/elevo/", None).unwrap();
        assert_eq!(
            below.at(&["health"]).as_str(),
            "http://localhost/elevo/health"
        );
    }

    #[test]
    fn addresses_are_checked() {
        for text in ["127.0.0.1:8080", "ftp://x", "nothing"] {
            assert!(address(text).is_err(), "{text}");
        }
        for (text, is_local) in [
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("https://localhost", true),
            ("http://example.com", false),
        ] {
            assert_eq!(is_loopback(&address(text).unwrap()), is_local, "{text}");
        }
    }
}
