use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Request to create a ticket.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTicket {
    /// Path of the stream, such as `/api/v1/events`. It may have a query, which
    /// becomes a part of `url`.
    pub path: String,
}

/// A ticket to open one stream without a key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    /// The value of `ticket` in the query of the stream. It is valid for one
    /// request.
    pub ticket: String,
    /// When the ticket expires.
    pub expires_at: String,
    /// Complete URL of the stream, with the ticket. It begins with `ws` or `wss`
    /// for a terminal, and with `http` or `https` for other streams.
    pub url: String,
}
