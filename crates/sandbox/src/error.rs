/// The result of a call to a runtime.
pub type Result<T> = std::result::Result<T, Error>;

/// The failures of a runtime, with one variant for each way in which a caller
/// can react.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine does not respond. The call may be retried, and may already
    /// have taken effect.
    #[error("the container engine at {host} does not respond")]
    Unreachable {
        /// The address of the engine.
        host: String,
        /// The error of the connection.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The image is not on this machine or, for a pull, not in its registry.
    #[error("image `{name}` does not exist")]
    NoSuchImage {
        /// The requested name.
        name: String,
    },
    /// The registry denied a pull. Many registries deny a missing image as well,
    /// so that strangers cannot tell which private images exist.
    #[error(
        "the registry denies access to image `{name}`: it needs credentials, or has no such image"
    )]
    ImageDenied {
        /// The requested name.
        name: String,
    },
    /// The container does not exist, or has been deleted.
    #[error("container `{id}` does not exist")]
    NoSuchContainer {
        /// The id of the container.
        id: String,
    },
    /// The engine does not have this OCI runtime.
    #[error("the container engine has no runtime `{name}`")]
    NoSuchRuntime {
        /// The requested name.
        name: String,
    },
    /// The request conflicts with the current state, for example a name that is
    /// taken or an image that is in use.
    #[error("conflict: {message}")]
    Conflict {
        /// The engine's message.
        message: String,
    },
    /// The image lacks something that the command needs.
    #[error("image `{image}` cannot run the command: {message}")]
    NotRunnable {
        /// The image.
        image: String,
        /// The engine's message.
        message: String,
    },
    /// The engine cannot fulfil the request exactly, so the call had no effect.
    #[error("{what} rejected: {why}")]
    Refused {
        /// The rejected field of the request or feature, such as `memory` or
        /// `network`.
        what: &'static str,
        /// The cause and the remedy.
        why: String,
    },
    /// Any other error of the engine.
    #[error("the container engine failed: {message}")]
    Failed {
        /// The engine's message.
        message: String,
    },
}

impl Error {
    /// Returns whether a retry of the call can succeed without any other
    /// change.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    pub(crate) fn refused(what: &'static str, why: impl Into<String>) -> Self {
        Self::Refused {
            what,
            why: why.into(),
        }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
        }
    }
}
