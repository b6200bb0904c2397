//! The port that a request is for, and the form of its address.

use axum::http::HeaderValue;
use elevo_core::SandboxId;

use crate::app::ports::port::Port;
use crate::config::Config;

/// The port that a request is for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) sandbox: SandboxId,
    pub(super) port: Port,
    pub(super) form: Form,
}

/// The form of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A path of the API, which shares the origin of the API.
    Path {
        /// The host that the client sent, if any.
        host: Option<HeaderValue>,
        /// The part of the path that the program does not see.
        prefix: String,
    },
    /// A host for the port alone.
    Domain {
        /// The host with its port, as the client sent it.
        authority: String,
    },
}

/// Returns the scheme that clients use.
pub(super) fn scheme(config: &Config) -> &'static str {
    let is_secure = match &config.public_url {
        Some(url) => url.scheme() == "https",
        None => config.tls.is_some(),
    };
    if is_secure { "https" } else { "http" }
}
