use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use elevo_api as api;
use elevo_core::{AgentId, KeyId};

use crate::app::requests::once::Once;
use crate::http::answer::Answer;
use crate::http::page::LongPage;
use crate::http::request::{Body, Path, Query, Who};
use crate::http::shared::Shared;

/// Create a key
///
/// This is the only response with the key's secret.
#[utoipa::path(
    post, path = "/api/v1/keys", operation_id = "keys_create", tag = "keys",
    request_body = api::CreateKey,
    extensions(("x-elevo" = json!({"audit": "key.created"}))),
    responses((status = 201, description = "The key with its secret", body = api::NewKey))
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    Who(who): Who,
    once: Once,
    Body(wish): Body<api::CreateKey>,
) -> Answer<(StatusCode, Json<api::NewKey>)> {
    let made = shared.app.keys.create(&who, wish, &once).await?;
    crate::platform::audit::about("key_id", made.key.id.as_str());
    Ok((StatusCode::CREATED, Json(made)))
}

/// List keys, oldest first
#[utoipa::path(
    get, path = "/api/v1/keys", operation_id = "keys_list", tag = "keys", params(LongPage),
    responses((status = 200, description = "A page of keys, oldest first", body = api::KeyPage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<LongPage>,
) -> Answer<Json<api::KeyPage>> {
    let page = query.read()?;
    Ok(Json(shared.app.keys.list(&who, page).await?))
}

/// Revoke a key
#[utoipa::path(
    delete, path = "/api/v1/keys/{id}", operation_id = "keys_revoke", tag = "keys", params(("id" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "key.revoked"}))),
    responses((status = 204, description = "The key was revoked"))
)]
pub(super) async fn revoke(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<KeyId>,
) -> Answer<StatusCode> {
    shared.app.keys.revoke(&who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Create an agent
#[utoipa::path(
    post, path = "/api/v1/agents", operation_id = "agents_create", tag = "keys",
    request_body = api::CreateAgent,
    extensions(("x-elevo" = json!({"audit": "agent.added"}))),
    responses((status = 201, description = "The agent", body = api::Agent))
)]
pub(super) async fn create_agent(
    State(shared): State<Shared>,
    Who(who): Who,
    once: Once,
    Body(wish): Body<api::CreateAgent>,
) -> Answer<(StatusCode, Json<api::Agent>)> {
    let made = shared.app.keys.create_agent(&who, wish, &once).await?;
    crate::platform::audit::about("agent_id", made.id.as_str());
    Ok((StatusCode::CREATED, Json(made)))
}

/// List agents, oldest first
#[utoipa::path(
    get, path = "/api/v1/agents", operation_id = "agents_list", tag = "keys", params(LongPage),
    responses((status = 200, description = "A page of agents, oldest first", body = api::AgentPage))
)]
pub(super) async fn list_agents(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<LongPage>,
) -> Answer<Json<api::AgentPage>> {
    let page = query.read()?;
    Ok(Json(shared.app.keys.agents(&who, page).await?))
}

/// Revoke all keys of an agent
///
/// Streams and terminals of these keys end, and the agent's workspaces are no
/// longer synchronised. The agent stays as the author of its merges, and may
/// receive a new key.
#[utoipa::path(
    delete, path = "/api/v1/agents/{id}", operation_id = "agents_delete", tag = "keys", params(("id" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "agent.ended"}))),
    responses((status = 204, description = "The keys of the agent were revoked"))
)]
pub(super) async fn end_agent(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<AgentId>,
) -> Answer<StatusCode> {
    shared.app.keys.end_agent(&who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Create a tenant
#[utoipa::path(
    post, path = "/api/v1/tenants", operation_id = "tenants_create", tag = "keys",
    request_body = api::CreateTenant,
    extensions(("x-elevo" = json!({"audit": "tenant.added"}))),
    responses((status = 201, description = "The tenant with the secret of its first key", body = api::NewTenant))
)]
pub(super) async fn create_tenant(
    State(shared): State<Shared>,
    Who(who): Who,
    once: Once,
    Body(wish): Body<api::CreateTenant>,
) -> Answer<(StatusCode, Json<api::NewTenant>)> {
    let made = shared.app.tenants.create(&who, wish, &once).await?;
    crate::platform::audit::about("tenant_id", made.tenant.id.as_str());
    Ok((StatusCode::CREATED, Json(made)))
}

/// Change the name, the limits or the suspension of a tenant
///
/// Requests with keys of a suspended tenant are denied. Its sandboxes keep
/// running until they expire.
#[utoipa::path(
    patch, path = "/api/v1/tenants/{id}", operation_id = "tenants_change", tag = "keys", params(("id" = String, Path)),
    request_body = api::ChangeTenant,
    extensions(("x-elevo" = json!({"audit": "tenant.changed"}))),
    responses((status = 200, description = "The changed tenant", body = api::Tenant))
)]
pub(super) async fn change_tenant(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    Body(wish): Body<api::ChangeTenant>,
) -> Answer<Json<api::Tenant>> {
    Ok(Json(shared.app.tenants.change(&who, &id, wish).await?))
}

/// Erase a tenant with all its data
///
/// The server denies requests with the tenant's keys immediately. In the
/// background it deletes the tenant's sandboxes, workspaces, projects,
/// snapshots, webhooks, agents and keys, and then the tenant itself; until then
/// the list of tenants shows `erasingSince`. The erasure cannot be undone. The
/// audit log keeps the entries about the tenant.
#[utoipa::path(
    delete, path = "/api/v1/tenants/{id}", operation_id = "tenants_erase", tag = "keys", params(("id" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "tenant.erased"}))),
    responses((status = 202, description = "The tenant, which is being erased", body = api::Tenant))
)]
pub(super) async fn erase_tenant(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
) -> Answer<(StatusCode, Json<api::Tenant>)> {
    let marked = shared.app.tenants.begin_erasure(&who, &id).await?;
    crate::platform::audit::about("tenant_id", marked.id.as_str());
    Ok((StatusCode::ACCEPTED, Json(marked)))
}

/// List tenants, oldest first
#[utoipa::path(
    get, path = "/api/v1/tenants", operation_id = "tenants_list", tag = "keys", params(LongPage),
    responses((status = 200, description = "A page of tenants, oldest first", body = api::TenantPage))
)]
pub(super) async fn list_tenants(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<LongPage>,
) -> Answer<Json<api::TenantPage>> {
    let page = query.read()?;
    Ok(Json(shared.app.tenants.list(&who, page).await?))
}
