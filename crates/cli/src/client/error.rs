//! Failures of requests to a server.

use std::path::PathBuf;

use elevo_api::ErrorBody;
use elevo_core::ErrorCode;

/// Why a request to a server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("no server is running with the data directory {}", .data.display())]
    NoServer { data: PathBuf },
    #[error("`{text}` is not a valid server address: {why}")]
    Address { text: String, why: String },
    #[error("there is no key for the server at {url}")]
    NoKey { url: String },
    #[error("the key has characters that are not allowed in a key")]
    KeyUnusable,
    #[error("cannot use the certificate authorities in {}: {why}", .path.display())]
    Authorities { path: PathBuf, why: String },
    #[error("cannot create the HTTP client")]
    Setup(#[source] reqwest::Error),
    #[error("the server at {url} cannot be reached")]
    Unreachable { url: String, source: reqwest::Error },
    #[error("the connection to the server at {url} was lost")]
    Broken { url: String, source: reqwest::Error },
    #[error("the WebSocket to the server at {url} failed")]
    Socket {
        url: String,
        source: Box<tokio_tungstenite::tungstenite::Error>,
    },
    #[error("{}", .0.message)]
    Refused(Box<ErrorBody>),
    #[error("there is no Elevo server at {url} (the response has status {status})")]
    NotOurs { url: String, status: u16 },
    #[error("cannot parse the response of the server")]
    Answer(#[source] serde_json::Error),
    #[error("the server sent an unexpected response: {0}")]
    Stream(&'static str),
    #[error("the response is larger than {0} bytes")]
    TooLarge(usize),
    #[error("{message}")]
    Told { message: String },
    #[error("the connection was lost and could not be restored within a minute")]
    GaveUp(#[source] Box<ClientError>),
}

impl ClientError {
    /// The code of the error, if the API returned one.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(body) => body.code(),
            _ => None,
        }
    }

    /// Whether the request was certainly not executed and may succeed later,
    /// for example because the server is restarting.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => source.is_connect(),
            Self::Refused(_) => matches!(
                self.code(),
                Some(
                    ErrorCode::ShuttingDown
                        | ErrorCode::AgentUnreachable
                        | ErrorCode::RateLimited
                        | ErrorCode::Overloaded
                )
            ),
            _ => false,
        }
    }

    /// Whether a retry can help, for a request that is safe to repeat.
    pub(crate) fn is_worth_repeating(&self) -> bool {
        let is_lost = matches!(
            self,
            Self::Broken { .. }
                | Self::Socket { .. }
                | Self::Told { .. }
                // A proxy responded for a server that may be restarting.
                | Self::NotOurs {
                    status: 502..=504,
                    ..
                }
        );
        is_lost || self.is_passing()
    }
}

pub(crate) type Result<T> = std::result::Result<T, ClientError>;
