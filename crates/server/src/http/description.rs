//! The parts of the OpenAPI description that all operations share: error
//! responses, headers, security and servers.

use serde_json::{Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{
    AnyOfBuilder, KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, Header, OpenApi, Ref, RefOr, Response, ResponseBuilder, ServerBuilder,
};
use utoipa::{PartialSchema, ToSchema};

/// The bytes of a file or of a tar archive.
pub(super) struct Binary;

impl PartialSchema for Binary {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
            .description(Some("The bytes of a file or of a tar archive."))
            .into()
    }
}

impl ToSchema for Binary {}

/// Name of the response that all errors have.
const ERROR: &str = "Error";

/// Completes the description that the routes declare.
pub(super) fn complete(api: &mut OpenApi) {
    let own = ServerBuilder::new()
        .url("http://127.0.0.1:8080")
        .description(Some("A server on this machine, with its default settings"));
    api.servers = Some(vec![own.build()]);
    let components = api.components.get_or_insert_default();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    let key = ApiKey::Header(ApiKeyValue::new("X-API-Key"));
    components.add_security_scheme("key", SecurityScheme::ApiKey(key));
    components
        .responses
        .insert(ERROR.into(), error_response().into());
    for schema in components.schemas.values_mut() {
        match schema {
            RefOr::T(Schema::Object(object)) => describe_times(object),
            RefOr::T(Schema::AllOf(parts)) => {
                for part in &mut parts.items {
                    if let RefOr::T(Schema::Object(object)) = part {
                        describe_times(object);
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(RefOr::T(data)) = components.schemas.get_mut("EventData")
        && let Schema::OneOf(kinds) = data
    {
        // The kinds have common fields, so one value may match several of them.
        let any = AnyOfBuilder::new().description(kinds.description.take());
        let any = kinds.items.drain(..).fold(any, AnyOfBuilder::item);
        *data = Schema::AnyOf(any.build());
    }
    if let Some(RefOr::T(Schema::Object(access))) = components.schemas.get_mut("Access") {
        // Generators would give `rw` and `rw-` the same name.
        let names = ["None", "Read", "Append", "Write", "Full"];
        let names = Extensions::builder().add("x-enum-varnames", names);
        access.extensions = Some(names.build());
    }
    for item in api.paths.paths.values_mut() {
        let changes = [&mut item.post, &mut item.put];
        for operation in changes.into_iter().flatten() {
            describe_replays(operation);
        }
        let all = [
            &mut item.get,
            &mut item.post,
            &mut item.put,
            &mut item.patch,
            &mut item.delete,
        ];
        for operation in all.into_iter().flatten() {
            describe_responses(operation);
        }
    }
}

/// Describes optional bodies of requests: a client may leave them out, but must
/// not send `null`. `utoipa` describes them the other way round.
pub(super) fn describe_bodies(api: &mut Value) {
    for operation in operations(api) {
        let Some(body) = operation.get_mut("requestBody") else {
            continue;
        };
        let content = body.get_mut("content");
        let Some(content) = content.and_then(Value::as_object_mut) else {
            continue;
        };
        let mut is_optional = false;
        for media in content.values_mut() {
            let choices = media["schema"]["oneOf"].as_array();
            let own = choices.and_then(|it| it.iter().find(|it| it.get("$ref").is_some()));
            if let Some(own) = own.cloned() {
                media["schema"] = own;
                is_optional = true;
            }
        }
        if is_optional {
            body["required"] = false.into();
        }
    }
}

/// Describes the parameters in paths by their name and the resource.
pub(super) fn describe_parameters(api: &mut Value) {
    let Some(paths) = api["paths"].as_object_mut() else {
        return;
    };
    for (path, item) in paths {
        let resource = path.split('/').nth(3).unwrap_or_default().to_owned();
        let Some(item) = item.as_object_mut() else {
            continue;
        };
        for operation in item.values_mut() {
            let parameters = operation.get_mut("parameters");
            let parameters = parameters.and_then(Value::as_array_mut);
            for parameter in parameters.into_iter().flatten() {
                let text = match (parameter["name"].as_str(), &*resource) {
                    (Some("id"), "agents") => "Id or name of the agent.",
                    (Some("id"), "keys") => "Id of the key.",
                    (Some("id"), "projects") => "Id or name of the project.",
                    (Some("id"), "reviews") => "Id of the review.",
                    (Some("id"), "sandboxes") => "Id or name of the sandbox.",
                    (Some("id"), "snapshots") => "Id or name of the snapshot.",
                    (Some("id"), "tenants") => "Id or name of the tenant.",
                    (Some("id"), "webhooks") => "Id of the webhook.",
                    (Some("id"), "workspaces") => {
                        "Id or name of the workspace, or the name of its sandbox."
                    }
                    (Some("cmdId"), _) => "Id of the command.",
                    (Some("ptyId"), _) => "Id of the terminal.",
                    (Some("event"), _) => "Id of the event.",
                    (Some("step"), _) => "Number of the step.",
                    (Some("name"), "projects") => "Name of the tag.",
                    (Some("name"), "templates") => "Name of the template.",
                    _ => continue,
                };
                if parameter["in"] == "path" {
                    parameter["description"] = text.into();
                }
            }
        }
    }
}

/// Returns all operations of a description.
fn operations(api: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = api["paths"].as_object_mut();
    let items = paths.into_iter().flat_map(|paths| paths.values_mut());
    let items = items.filter_map(Value::as_object_mut);
    items.flat_map(|item| item.values_mut())
}

/// Describes streams of server-sent events as text, with the schema of the JSON
/// in the data of each event. `utoipa` has no way to say so.
pub(super) fn describe_streams(api: &mut Value) {
    for operation in operations(api) {
        let responses = operation.get_mut("responses");
        let Some(responses) = responses.and_then(Value::as_object_mut) else {
            continue;
        };
        let streams = responses
            .values_mut()
            .filter_map(|response| response.pointer_mut("/content/text~1event-stream/schema"));
        for schema in streams {
            *schema = json!({
                "type": "string",
                "description": "Server-sent events. The data of each is JSON.",
                "contentMediaType": "application/json",
                "contentSchema": schema.take(),
            });
        }
    }
}

/// Sets the format of all times, which their names reveal.
fn describe_times(object: &mut Object) {
    for (name, property) in &mut object.properties {
        let is_time = ["At", "Since", "Until", "timestamp"]
            .iter()
            .any(|end| name.ends_with(end));
        if let RefOr::T(Schema::Object(property)) = property
            && is_time
            && is_text(&property.schema_type)
        {
            property.format = Some(SchemaFormat::KnownFormat(KnownFormat::DateTime));
        }
    }
}

fn is_text(kind: &SchemaType) -> bool {
    match kind {
        SchemaType::Type(kind) => *kind == Type::String,
        SchemaType::Array(kinds) => kinds.contains(&Type::String),
        SchemaType::AnyValue => false,
    }
}

/// Adds the error responses, and the header that every response has.
fn describe_responses(operation: &mut Operation) {
    // An operation that needs no key declares an empty security.
    let has_key = operation.security.is_none();
    let responses = &mut operation.responses.responses;
    for response in responses.values_mut() {
        if let RefOr::T(response) = response {
            add_header(response, "X-Request-Id", request_id());
            if has_key {
                for (name, header) in rate_limits() {
                    add_header(response, name, header);
                }
            }
        }
    }
    let mut add = |status: &str| {
        let error = Ref::from_response_name(ERROR);
        responses.insert(status.into(), RefOr::Ref(error));
    };
    add("4XX");
    add("5XX");
    if responses.contains_key("101") {
        // The linter requires a successful response or `default`, and does not
        // count 101 as success. Every other response is an error.
        let error = Ref::from_response_name(ERROR);
        responses.insert("default".into(), RefOr::Ref(error));
    }
}

/// Adds the header of a response to a repeated request.
fn describe_replays(operation: &mut Operation) {
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            let text = "`true` if the response is that of an earlier request with the same \
                        `Idempotency-Key`.";
            add_header(
                response,
                "Idempotency-Replayed",
                header(Type::Boolean, text),
            );
        }
    }
}

fn error_response() -> Response {
    let envelope = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorEnvelope")));
    let wait = "Seconds until a retry may succeed.";
    let [policy, state] = rate_limits();
    ResponseBuilder::new()
        .description("The request failed; the error says why, and what to do")
        .header("X-Request-Id", request_id())
        .header(policy.0, policy.1)
        .header(state.0, state.1)
        .header("Retry-After", header(Type::Integer, wait))
        .content("application/json", envelope.build())
        .build()
}

fn add_header(response: &mut Response, name: &str, header: Header) {
    response.headers.insert(name.into(), header.into());
}

fn request_id() -> Header {
    let text = "Id of the request, which is also in the log of the server.";
    header(Type::String, text)
}

/// The headers that every response to a request with a valid key has.
fn rate_limits() -> [(&'static str, Header); 2] {
    let policy = "The rate limits that the request counted towards, such as \
                  `\"creates\";q=60;w=60`: the policy `creates`, `requests` or `commands` of the \
                  key, and `tenant`, each with its quota `q` in a window of `w` seconds. Absent \
                  if nothing limits the key. draft-ietf-httpapi-ratelimit-headers has the syntax.";
    let state = "The state of the rate limits, such as `\"creates\";r=59;t=1`: `r` requests are \
                 left, and the whole quota is available again in `t` seconds.";
    [
        ("RateLimit-Policy", header(Type::String, policy)),
        ("RateLimit", header(Type::String, state)),
    ]
}

fn header(kind: Type, description: &str) -> Header {
    let schema = ObjectBuilder::new().schema_type(kind).build();
    HeaderBuilder::new()
        .schema(Some(schema))
        .description(Some(description))
        .build()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn every_operation_has_an_id_of_its_resource_and_described_responses() {
        let api: Value = serde_json::from_str(&crate::http::openapi_json()).unwrap();
        let paths = api["paths"].as_object().unwrap();
        let mut ids = Vec::new();
        for operation in paths
            .values()
            .flat_map(|item| item.as_object().unwrap().values())
        {
            let id = operation["operationId"].as_str().unwrap();
            assert!(id.contains('_'), "{id}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let described = response["description"]
                    .as_str()
                    .or(response["$ref"].as_str());
                assert!(!described.unwrap_or_default().is_empty(), "{id}: {status}");
            }
            ids.push(id);
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "an id is used twice");
    }
}
