use elevo_core::ErrorCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Every error of the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorEnvelope {
    /// What went wrong.
    pub error: ErrorBody,
}

/// What went wrong, for programs and for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// Its number; `docs/errors.md` lists them.
    #[schema(example = 2001)]
    pub code: u16,
    /// Its name.
    #[schema(example = "SANDBOX_NOT_FOUND")]
    pub name: String,
    /// What happened, in a sentence.
    pub message: String,
    /// What it was about.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub details: serde_json::Value,
    /// What to do.
    pub remediation: String,
    /// The request, for whoever reads the server's log.
    #[serde(default)]
    pub request_id: String,
}

impl ErrorBody {
    /// The code, if this version knows it.
    pub fn code(&self) -> Option<ErrorCode> {
        let mut all = ErrorCode::ALL.iter().copied();
        all.find(|code| code.number() == self.code)
    }
}
