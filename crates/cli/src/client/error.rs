use std::path::PathBuf;

use elevo_api::ErrorBody;
use elevo_core::ErrorCode;

/// Why a server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("no server is running with the data directory {}", .data.display())]
    NoServer { data: PathBuf },
    #[error("`{text}` is no address of a server: {why}")]
    Address { text: String, why: String },
    #[error("there is no key for the server at {url}")]
    NoKey { url: String },
    #[error("the key has characters in it that no key has")]
    KeyUnusable,
    #[error("the authorities in {} cannot be used: {why}", .path.display())]
    Authorities { path: PathBuf, why: String },
    #[error("the HTTP client cannot be made")]
    Setup(#[source] reqwest::Error),
    #[error("the server at {url} cannot be reached")]
    Unreachable { url: String, source: reqwest::Error },
    #[error("the connection to the server at {url} broke")]
    Broken { url: String, source: reqwest::Error },
    #[error("the WebSocket to the server at {url} failed")]
    Socket {
        url: String,
        source: Box<tokio_tungstenite::tungstenite::Error>,
    },
    #[error("{}", .0.message)]
    Refused(Box<ErrorBody>),
    #[error("what answers at {url} is no Elevo server (status {status})")]
    NotOurs { url: String, status: u16 },
    #[error("the answer of the server cannot be understood")]
    Answer(#[source] serde_json::Error),
    #[error("the server sent something that no server sends: {0}")]
    Stream(&'static str),
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    #[error("{message}")]
    Told { message: String },
    #[error("the connection was lost, and could not be made again within a minute")]
    GaveUp(#[source] Box<ClientError>),
}

impl ClientError {
    /// The code of an error of the API.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(body) => body.code(),
            _ => None,
        }
    }

    /// Whether the request was surely not carried out, and may go through
    /// later: a server that restarts.
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

    /// Whether asking again can help, if asking twice does no harm.
    pub(crate) fn is_worth_repeating(&self) -> bool {
        let is_lost = matches!(
            self,
            Self::Broken { .. }
                | Self::Socket { .. }
                | Self::Told { .. }
                // A proxy whose server restarts.
                | Self::NotOurs {
                    status: 502..=504,
                    ..
                }
        );
        is_lost || self.is_passing()
    }
}
