//! The REST API: all routes, and the form of requests and responses.

pub(crate) mod address;
pub(crate) mod admin;
pub(crate) mod admin_socket;
pub(crate) mod answer;
pub(crate) mod audit;
pub(crate) mod changes;
pub(crate) mod description;
pub(crate) mod diffs;
pub(crate) mod docs;
pub(crate) mod enter;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod history;
pub(crate) mod idempotent;
pub(crate) mod keys;
pub(crate) mod layers;
pub(crate) mod limits;
pub(crate) mod me;
pub(crate) mod open_values;
pub(crate) mod origins;
pub(crate) mod page;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod projects;
pub(crate) mod pty;
pub(crate) mod pty_socket;
pub(crate) mod ranges;
pub(crate) mod request;
pub(crate) mod reviews;
pub(crate) mod route_rules;
pub(crate) mod sandboxes;
pub(crate) mod shared;
pub(crate) mod single_files;
pub(crate) mod snapshots;
pub(crate) mod stored_files;
pub(crate) mod stream;
pub(crate) mod streams;
pub(crate) mod system;
pub(crate) mod tags;
pub(crate) mod tar;
pub(crate) mod templates;
pub(crate) mod tickets;
pub(crate) mod upload;
pub(crate) mod watch;
pub(crate) mod webhooks;
pub(crate) mod workspace_files;
pub(crate) mod workspaces;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::any;
use elevo_core::ErrorCode;
use tower::util::option_layer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::failure::Failure;
pub(crate) use crate::http::admin::router as admin_router;
use crate::http::answer::ApiError;
use crate::http::limits::RateLimits;
use crate::http::route_rules::{BODY, RouteRules};
use crate::http::shared::Shared;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Elevo",
        description = "Sandboxes for agents, each with its own branch of a versioned file tree. A path or a field that names a sandbox, a workspace, a project or an agent accepts its id or its name. Every list has `limit` and `cursor`, and responds with `items` and `next`. A value with `x-extensible-enum` may get more values: a client must accept values and fields that it does not know. Errors: docs/errors.md.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(ports::request),
    components(schemas(elevo_api::ErrorEnvelope)),
    security(("bearer" = []), ("key" = [])),
    tags(
        (name = "sandboxes", description = "Containers with a workspace at /workspace"),
        (name = "files", description = "Snapshots, forks, diffs and archives of workspaces"),
        (name = "snapshots", description = "Saved states of file trees"),
        (name = "process", description = "Commands"),
        (name = "pty", description = "Terminals"),
        (name = "ports", description = "Programs that listen on ports of sandboxes"),
        (name = "projects", description = "Shared, versioned trees of files"),
        (name = "workspaces", description = "Writable copies of projects, each for one agent"),
        (name = "reviews", description = "Changes that wait for a decision"),
        (name = "templates", description = "Images that sandboxes are created from"),
        (name = "keys", description = "Keys and agents of a tenant"),
        (name = "events", description = "Events of sandboxes and projects, and webhooks"),
        (name = "system", description = "The server itself")
    )
)]
struct Description;

/// All routes with their OpenAPI descriptions.
fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(sandboxes::create, sandboxes::list))
        .routes(routes!(
            sandboxes::get,
            sandboxes::change,
            sandboxes::delete
        ))
        .routes(routes!(sandboxes::batch_delete))
        .routes(routes!(sandboxes::stop))
        .routes(routes!(sandboxes::start))
        .routes(routes!(sandboxes::extend))
        .routes(routes!(sandboxes::logs))
        .routes(routes!(sandboxes::stats))
        .routes(routes!(files::fork))
        .routes(routes!(files::snapshot))
        .routes(routes!(files::restore))
        .routes(routes!(files::diff))
        .routes(routes!(files::archive_out, files::archive_in))
        .merge(single_files::routes())
        .merge(watch::routes())
        .merge(snapshots::routes())
        .merge(stored_files::routes())
        .routes(routes!(process::run))
        .routes(routes!(process::list))
        .routes(routes!(process::get))
        .routes(routes!(process::output))
        .routes(routes!(process::input))
        .routes(routes!(process::kill))
        .routes(routes!(pty::create))
        .routes(routes!(pty::resize))
        .routes(routes!(pty::close))
        .routes(routes!(pty::connect))
        .routes(routes!(ports::link))
        .routes(routes!(projects::create, projects::list))
        .routes(routes!(projects::get, projects::change, projects::delete))
        .routes(routes!(projects::policy, projects::set_policy))
        .routes(routes!(tags::set, tags::list))
        .routes(routes!(tags::remove))
        .merge(history::routes())
        .merge(changes::routes())
        .merge(reviews::routes())
        .routes(routes!(workspaces::create, workspaces::list))
        .routes(routes!(workspaces::get, workspaces::delete))
        .routes(routes!(workspaces::merge))
        .routes(routes!(workspaces::complete))
        .routes(routes!(workspaces::refresh))
        .merge(workspace_files::routes())
        .routes(routes!(templates::list, templates::add))
        .routes(routes!(templates::remove))
        .routes(routes!(templates::load))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::revoke))
        .routes(routes!(tickets::create))
        .routes(routes!(keys::create_agent, keys::list_agents))
        .routes(routes!(keys::end_agent))
        .routes(routes!(keys::create_tenant, keys::list_tenants))
        .routes(routes!(keys::change_tenant, keys::erase_tenant))
        .routes(routes!(events::events))
        .routes(routes!(webhooks::create, webhooks::list))
        .routes(routes!(webhooks::get, webhooks::change, webhooks::remove))
        .routes(routes!(webhooks::rotate))
        .routes(routes!(webhooks::deliveries))
        .routes(routes!(webhooks::replay))
        .merge(me::routes())
        .routes(routes!(system::stats))
        .routes(routes!(system::gc_status, system::gc))
        .routes(routes!(system::health))
        .routes(routes!(system::ready))
}

/// Returns the OpenAPI description of the API: the text of
/// `openapi/elevo.json`.
pub fn openapi_json() -> String {
    let mut api = routes().into_openapi();
    RouteRules::take_from(&mut api);
    idempotent::describe(&mut api);
    description::complete(&mut api);
    let mut api = serde_json::to_value(&api).unwrap_or_default();
    description::describe_streams(&mut api);
    description::describe_bodies(&mut api);
    description::describe_parameters(&mut api);
    open_values::open(&mut api);
    let mut text = serde_json::to_string_pretty(&api).unwrap_or_default();
    text.push('\n');
    text
}

/// Returns the rules that the routes declare.
fn rules() -> &'static RouteRules {
    static RULES: LazyLock<RouteRules> =
        LazyLock::new(|| RouteRules::take_from(&mut routes().into_openapi()));
    &RULES
}

/// Returns the state of the handlers of one listener.
pub(crate) fn shared(app: Arc<App>) -> Shared {
    Shared {
        app,
        rates: Arc::new(RateLimits::default()),
        rules: rules(),
        ports: Arc::default(),
    }
}

/// Creates the router of the public API, with its layers.
pub(crate) fn router(shared: Shared) -> Router {
    let (router, _) = routes().split_for_parts();
    let router = router
        .route("/openapi.json", any(system::openapi))
        .layer(from_fn_with_state(shared.clone(), enter::apart))
        .layer(from_fn_with_state(shared.clone(), idempotent::once))
        .layer(from_fn_with_state(shared.clone(), enter::enter))
        .layer(DefaultBodyLimit::max(BODY));
    let router = docs::add_to(ports::add_to(router), &shared.app.config)
        .method_not_allowed_fallback(async || {
            let message = "this path does not support the method of the request";
            ApiError::from(Failure::new(ErrorCode::MethodNotAllowed, message))
        })
        .fallback(async || {
            let message = "the API has no such path";
            ApiError::from(Failure::new(ErrorCode::NotFound, message))
        })
        .layer(from_fn_with_state(
            shared.clone(),
            layers::refuse_when_stopping,
        ))
        .layer(from_fn_with_state(shared.clone(), audit::record))
        .layer(option_layer(origins::layer(&shared.app.config)))
        .layer(from_fn(layers::observe))
        .with_state(shared.clone());
    ports::domain::before(router, shared)
}

/// Creates the router of `/health`, `/ready` and `/metrics`, which has a
/// separate port.
pub(crate) fn internal_router(shared: Shared) -> Router {
    Router::new()
        .route("/health", axum::routing::get(system::health))
        .route("/ready", axum::routing::get(system::ready))
        .route("/metrics", axum::routing::get(system::metrics))
        .with_state(shared)
}
