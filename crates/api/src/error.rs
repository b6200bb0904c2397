use elevo_core::ErrorCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every error response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorEnvelope {
    /// The error.
    pub error: ErrorBody,
}

/// An error, with fields for programs and sentences for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// Number of the error; `docs/errors.md` lists all of them.
    #[schema(example = 2001)]
    pub code: u16,
    /// Name of the error.
    #[schema(example = "SANDBOX_NOT_FOUND")]
    pub name: String,
    /// The failure and its cause, in one sentence.
    pub message: String,
    /// Machine-readable details, such as the id that was not found.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub details: serde_json::Value,
    /// How to resolve the error.
    pub remediation: String,
    /// Whether the same request may succeed later: `never`, `afterChange` (when
    /// the cause has changed), `later` (without a change), or `unknown` (the
    /// request may have had an effect; a retry with the same `Idempotency-Key`
    /// does not repeat it). Treat other values like `never`.
    #[serde(default)]
    #[schema(example = "never")]
    pub retry: String,
    /// Id of the request, to find it in the server's log.
    #[serde(default)]
    pub request_id: String,
}

impl ErrorBody {
    /// Returns the code, or `None` if this version does not know it.
    pub fn code(&self) -> Option<ErrorCode> {
        let mut all = ErrorCode::ALL.iter().copied();
        all.find(|code| code.number() == self.code)
    }
}
