/// What a call to a runtime returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a runtime did not do what it was asked; a kind for each thing that a
/// caller would do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine does not answer. The call may be repeated, and may have had
    /// its effect already.
    #[error("the container engine at {host} does not answer")]
    Unreachable {
        /// Where it was looked for.
        host: String,
        /// What happened on the way.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The image is not on this machine, or not in its registry.
    #[error("there is no image `{name}`")]
    NoSuchImage {
        /// Its name as asked for.
        name: String,
    },
    /// There is no such container, or it has gone.
    #[error("there is no container `{id}`")]
    NoSuchContainer {
        /// Its id.
        id: String,
    },
    /// The engine does not know this OCI runtime.
    #[error("the container engine has no runtime `{name}`")]
    NoSuchRuntime {
        /// Its name as asked for.
        name: String,
    },
    /// What is asked for stands against what there is: a name that is taken,
    /// an image that is used.
    #[error("conflict: {message}")]
    Conflict {
        /// What the engine says.
        message: String,
    },
    /// The image has not what the command needs.
    #[error("image `{image}` cannot run the command: {message}")]
    NotRunnable {
        /// The image.
        image: String,
        /// What the engine says.
        message: String,
    },
    /// What was asked for would not hold, so nothing was done.
    #[error("{what} refused: {why}")]
    Refused {
        /// The part that cannot be had, as a field of the request or a
        /// feature: `memory`, `network`.
        what: &'static str,
        /// Why not, and what to do about it.
        why: String,
    },
    /// Anything else that the engine reports.
    #[error("the container engine failed: {message}")]
    Failed {
        /// What it says.
        message: String,
    },
}

impl Error {
    /// Whether the same call may go through later without anyone doing
    /// anything about it.
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
