use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use elevo_api as api;

use crate::app::requests::once::Once;
use crate::http::address::Address;
use crate::http::answer::Answer;
use crate::http::request::{Body, Who};
use crate::http::shared::Shared;
use crate::http::streams;
use crate::platform::clock;

/// Create a ticket for a stream
///
/// A client that cannot send headers, such as a page in a browser, opens a stream
/// with `?ticket=` in place of a key: a terminal, the events, the output of a
/// command, or a watch of files. A ticket is valid for one GET request of exactly this path, with any
/// query, for 30 seconds, and as long as the key that created it. The stream has
/// the rights of that key. Requests with the same `Idempotency-Key` create
/// another ticket each.
#[utoipa::path(
    post, path = "/api/v1/tickets", operation_id = "tickets_create", tag = "keys",
    request_body = api::CreateTicket,
    extensions(("x-elevo" = json!({"audit": "ticket.created", "disk": "spared"}))),
    responses((status = 201, description = "The ticket", body = api::Ticket))
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    Who(who): Who,
    address: Address,
    once: Once,
    Body(wish): Body<api::CreateTicket>,
) -> Answer<(StatusCode, Json<api::Ticket>)> {
    once.do_not_store();
    let (path, query) = streams::parse(&wish.path)?;
    crate::platform::audit::detail("path", path.as_str());
    let (ticket, expires) = shared.app.tickets.create(&who, &path)?;
    let url = address.url(&path);
    let ticket = api::Ticket {
        url: match query {
            Some(query) => format!("{url}?{query}&ticket={ticket}"),
            None => format!("{url}?ticket={ticket}"),
        },
        expires_at: clock::text(expires),
        ticket,
    };
    Ok((StatusCode::CREATED, Json(ticket)))
}
