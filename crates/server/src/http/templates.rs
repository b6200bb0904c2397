use axum::Json;
use axum::body::Body as RawBody;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use elevo_api as api;
use elevo_api::PullEvent;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::http::answer::Answer;
use crate::http::description::Binary;
use crate::http::layers;
use crate::http::page::LongPage;
use crate::http::request::{Body, Path, Query, Who};
use crate::http::shared::Shared;
use crate::http::{stream, upload};

/// List templates, ordered by name
#[utoipa::path(
    get, path = "/api/v1/templates", operation_id = "templates_list", tag = "templates", params(LongPage),
    responses((status = 200, description = "A page of templates, ordered by name", body = api::TemplatePage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<LongPage>,
) -> Answer<Json<api::TemplatePage>> {
    Ok(Json(shared.app.templates.list(&who, query.read()?).await?))
}

/// Add a template
///
/// The image is pulled if the container engine does not have it. A request that
/// accepts `text/event-stream` receives the progress as events.
#[utoipa::path(
    post, path = "/api/v1/templates", operation_id = "templates_create", tag = "templates",
    request_body = api::AddTemplate,
    extensions(("x-elevo" = json!({"audit": "template.added"}))),
    responses(
        (status = 200, description = "A stream of the progress, which ends with the template", content_type = "text/event-stream", body = api::PullEvent),
        (status = 201, description = "The template", body = api::Template)
    )
)]
pub(super) async fn add(
    State(shared): State<Shared>,
    Who(who): Who,
    headers: HeaderMap,
    Body(wish): Body<api::AddTemplate>,
) -> Answer<Response> {
    crate::platform::audit::about("template", crate::platform::audit::cut(&wish.name));
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    if !accept.is_some_and(|accept| accept.contains("text/event-stream")) {
        let added = shared.app.templates.add(&who, wish, None).await?;
        return Ok((StatusCode::CREATED, Json(added)).into_response());
    }
    who.needs(api::Scope::TemplatesWrite)?;
    let (sender, receiver) = mpsc::channel(64);
    let request_id = layers::request_id();
    tokio::spawn(async move {
        let added = shared
            .app
            .templates
            .add(&who, wish, Some(sender.clone()))
            .await;
        let last = match added {
            Ok(template) => PullEvent::Done { template },
            Err(failure) => PullEvent::Error {
                error: failure.body(&request_id),
            },
        };
        // The client may have disconnected.
        let _ = sender.send(last).await;
    });
    let events = ReceiverStream::new(receiver);
    let events = events.map(|event| Ok(SseEvent::default().data(serde_json::to_string(&event)?)));
    Ok(stream::respond(events))
}

/// Add a template with the image of a tar (plain, gzip or zstd)
///
/// The body is an archive with one image, as `docker save` writes it. The image
/// keeps the name that the archive gives it.
#[utoipa::path(
    put, path = "/api/v1/templates/{name}/archive", operation_id = "templates_load", tag = "templates", params(("name" = String, Path)),
    request_body(content = Binary, content_type = "application/x-tar"),
    extensions(("x-elevo" = json!({"audit": "template.added", "body": "archive"}))),
    responses((status = 201, description = "The template", body = api::Template))
)]
pub(super) async fn load(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(name): Path<String>,
    body: RawBody,
) -> Answer<(StatusCode, Json<api::Template>)> {
    crate::platform::audit::about("template", crate::platform::audit::cut(&name));
    who.needs(api::Scope::System)?;
    let archive = upload::receive(&shared, &who, body).await?;
    let added = shared.app.templates.load(&who, name, archive).await?;
    Ok((StatusCode::CREATED, Json(added)))
}

/// Delete a template; the container engine keeps the image
#[utoipa::path(
    delete, path = "/api/v1/templates/{name}", operation_id = "templates_delete", tag = "templates", params(("name" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "template.removed"}))),
    responses((status = 204, description = "The template was deleted"))
)]
pub(super) async fn remove(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(name): Path<String>,
) -> Answer<StatusCode> {
    shared.app.templates.remove(&who, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
