//! Describes the values in responses as open: a later version of the server may
//! add some, so generated clients must accept values that they do not know.
//!
//! In a schema that only responses use, a property has the type `string` and the
//! known values in `x-extensible-enum`. In requests, the values stay closed.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Properties that are plain strings in Rust, with their known values.
const KNOWN: [(&str, &str, &[&str]); 10] = [
    ("Change", "after", &ENTRIES),
    ("Change", "before", &ENTRIES),
    ("Conflict", "kind", &CONFLICTS),
    ("Event", "kind", &elevo_api::EVENT_KINDS),
    (
        "Conflict",
        "suggestion",
        &["project", "workspace", "merged"],
    ),
    (
        "ErrorBody",
        "retry",
        &["never", "afterChange", "later", "unknown"],
    ),
    ("FileVersion", "kind", &CHANGES),
    ("LandedFile", "kind", &CHANGES),
    ("Step", "kind", &STEPS),
    ("Version", "type", &ENTRIES),
];

const ENTRIES: [&str; 3] = ["file", "directory", "symlink"];

const CHANGES: [&str; 5] = ["added", "modified", "removed", "renamed", "mode"];

const CONFLICTS: [&str; 9] = [
    "content",
    "both-added",
    "removed-in-project",
    "removed-in-workspace",
    "file-against-directory",
    "kind",
    "renamed",
    "protected",
    "too-large",
];

const STEPS: [&str; 7] = [
    "merge", "apply", "revert", "restore", "import", "archive", "resolve",
];

/// Opens the values of all responses in a description.
pub(super) fn open(api: &mut Value) {
    let asked = used_by_requests(api);
    let Some(schemas) = api.pointer_mut("/components/schemas") else {
        return;
    };
    let Some(schemas) = schemas.as_object_mut() else {
        return;
    };
    for (schema, property, values) in KNOWN {
        let found = schemas.get_mut(schema);
        let found = found.and_then(|schema| find_property(schema, property));
        if let Some(found) = found {
            found["x-extensible-enum"] = json!(values);
        }
    }
    let closed: Map<String, Value> = schemas
        .iter()
        .filter(|(_, schema)| schema.get("enum").is_some())
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    for (name, schema) in schemas.iter_mut() {
        if !asked.contains(name) && !closed.contains_key(name) {
            inline(schema, &closed);
        }
    }
    // A response may get fields that this version does not know. The server
    // still rejects unknown fields of requests.
    let answered = used_by(api, "responses");
    let schemas = api.pointer_mut("/components/schemas");
    let Some(schemas) = schemas.and_then(Value::as_object_mut) else {
        return;
    };
    for (name, schema) in schemas.iter_mut() {
        if let (true, Some(schema)) = (answered.contains(name), schema.as_object_mut()) {
            schema.retain(|field, value| field != "additionalProperties" || *value != false);
        }
    }
    schemas.retain(|name, _| asked.contains(name) || !closed.contains_key(name));
}

/// Finds a property of an object, or of the parts of a composed object.
fn find_property<'a>(schema: &'a mut Value, property: &str) -> Option<&'a mut Value> {
    if schema.pointer(&format!("/properties/{property}")).is_some() {
        return schema.pointer_mut(&format!("/properties/{property}"));
    }
    let parts = schema.get_mut("allOf")?.as_array_mut()?;
    let mut parts = parts.iter_mut();
    parts.find_map(|part| find_property(part, property))
}

/// Replaces references to closed values by open ones.
fn inline(schema: &mut Value, closed: &Map<String, Value>) {
    let name = schema.get("$ref").and_then(Value::as_str).map(last_part);
    if let Some(values) = name.and_then(|name| closed.get(name)) {
        let own = schema.get("description").or(values.get("description"));
        *schema = json!({
            "type": "string",
            "description": own,
            "x-extensible-enum": values["enum"],
        });
        return;
    }
    match schema {
        Value::Object(parts) => parts.values_mut().for_each(|part| inline(part, closed)),
        Value::Array(parts) => parts.iter_mut().for_each(|part| inline(part, closed)),
        _ => {}
    }
}

/// Returns the names of the schemas that bodies and parameters of requests use.
fn used_by_requests(api: &Value) -> BTreeSet<String> {
    let mut found = used_by(api, "requestBody");
    found.extend(used_by(api, "parameters"));
    found
}

/// Returns the names of the schemas that a part of the operations uses.
fn used_by(api: &Value, part: &str) -> BTreeSet<String> {
    let mut open = Vec::new();
    let items = api["paths"].as_object().into_iter().flatten();
    let operations = items.filter_map(|(_, item)| item.as_object());
    for operation in operations.flat_map(Map::values) {
        references(&operation[part], &mut open);
    }
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        if found.insert(name.clone()) {
            references(&api["components"]["schemas"][&name], &mut open);
        }
    }
    found
}

/// Collects the names of the schemas that a value refers to.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(parts) => {
            let name = parts.get("$ref").and_then(Value::as_str);
            found.extend(name.map(last_part).map(str::to_owned));
            parts.values().for_each(|part| references(part, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| references(part, found)),
        _ => {}
    }
}

fn last_part(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn responses_have_open_values_and_requests_closed_ones() {
        let api: Value = serde_json::from_str(&crate::http::openapi_json()).unwrap();
        let schemas = &api["components"]["schemas"];
        let state = &schemas["Sandbox"]["properties"]["state"];
        assert_eq!(state["type"], "string", "{state}");
        let values = state["x-extensible-enum"].as_array().unwrap();
        assert!(values.contains(&json!("running")), "{state}");
        assert!(schemas["Take"]["enum"].is_array(), "a request has it");
        assert!(schemas.get("GcPhase").is_none(), "only responses have it");
        for (schema, property, values) in super::KNOWN {
            let mut schema = schemas[schema].clone();
            let found = super::find_property(&mut schema, property);
            let found = found.unwrap_or_else(|| panic!("there is no `{property}`"));
            assert_eq!(found["x-extensible-enum"], json!(values), "{property}");
        }
    }
}
