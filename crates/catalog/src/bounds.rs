//! Bounds on the parts of a record. They are the same for every implementation,
//! so that a record that fits into one also fits into the others.

mod projects;
mod values;

use std::collections::BTreeMap;

use crate::error::Result;
use crate::limits::{
    MAX_BODY_BYTES, MAX_EVENT_BYTES, MAX_METADATA, MAX_METADATA_VALUE_BYTES, MAX_SPEC_BYTES,
};
use crate::query::SandboxQuery;
use crate::records::{
    Agent, ApiKey, IdempotentRequest, NewEvent, Sandbox, Template, Tenant, Webhook,
};

pub(crate) use projects::*;
pub(crate) use values::*;

pub(crate) fn tenant(tenant: &Tenant) -> Result<()> {
    name("the name of a tenant", &tenant.name)?;
    micros(tenant.created).map(drop)
}

pub(crate) fn agent(agent: &Agent) -> Result<()> {
    name("the name of an agent", &agent.name)?;
    micros(agent.created).map(drop)
}

pub(crate) fn key(key: &ApiKey) -> Result<()> {
    name("the name of a key", &key.name)?;
    words("scopes", &key.scopes)?;
    let times = [Some(key.created), key.expires, key.revoked];
    times.into_iter().flatten().try_for_each(|time| {
        micros(time)?;
        Ok(())
    })
}

pub(crate) fn sandbox(sandbox: &Sandbox) -> Result<()> {
    if let Some(text) = &sandbox.name {
        name("the name of a sandbox", text)?;
    }
    name("the template of a sandbox", &sandbox.template)?;
    if let Some(container) = &sandbox.container {
        text("the container of a sandbox", container)?;
    }
    number("a generation", sandbox.generation)?;
    metadata(&sandbox.metadata)?;
    for time in [sandbox.created, sandbox.expires, sandbox.updated] {
        micros(time)?;
    }
    Ok(())
}

pub(crate) fn template(template: &Template) -> Result<()> {
    name("the name of a template", &template.name)?;
    text("the image of a template", &template.image)?;
    if let Some(description) = &template.description {
        text("the description of a template", description)?;
    }
    words("tags", &template.tags)?;
    number("the size of a template", template.size)?;
    micros(template.created).map(drop)
}

pub(crate) fn request(request: &IdempotentRequest) -> Result<()> {
    name("the id of a request", &request.id)?;
    name("a server process", &request.run.process)?;
    micros(request.now)?;
    micros(request.keep_until).map(drop)
}

pub(crate) fn body(body: &[u8]) -> Result<()> {
    if body.len() > MAX_BODY_BYTES {
        return refuse(format!(
            "a stored response can have at most {MAX_BODY_BYTES} bytes"
        ));
    }
    Ok(())
}

pub(crate) fn query(query: &SandboxQuery) -> Result<()> {
    if query.page == 0 {
        return refuse("pages are counted from 1");
    }
    if let Some(prefix) = &query.name_prefix {
        nul("the beginning of a name", prefix)?;
    }
    metadata(&query.metadata)?;
    limit(query.limit)
}

fn metadata(pairs: &BTreeMap<String, String>) -> Result<()> {
    if pairs.len() > MAX_METADATA {
        return refuse(format!("metadata can have at most {MAX_METADATA} pairs"));
    }
    for (key, value) in pairs {
        name("a key of metadata", key)?;
        if value.len() > MAX_METADATA_VALUE_BYTES {
            return refuse(format!(
                "a value of metadata can have at most {MAX_METADATA_VALUE_BYTES} bytes"
            ));
        }
        nul("a value of metadata", value)?;
    }
    Ok(())
}

pub(crate) fn event(event: &NewEvent) -> Result<()> {
    name("the subject of an event", &event.subject)?;
    micros(event.at)?;
    json("the data of an event", &event.data, MAX_EVENT_BYTES).map(drop)
}

pub(crate) fn webhook(webhook: &Webhook) -> Result<()> {
    webhook_url(&webhook.url)?;
    secret(&webhook.secret)?;
    secret(&webhook.previous_secret)?;
    micros(webhook.created).map(drop)
}

/// Checks the address of a webhook.
pub(crate) fn webhook_url(url: &str) -> Result<()> {
    text("the address of a webhook", url)
}

/// Checks the secret of a webhook.
pub(crate) fn secret(secret: &str) -> Result<()> {
    text("the secret of a webhook", secret)
}

/// Returns the stored form of a specification.
pub(crate) fn spec(sandbox: &Sandbox) -> Result<String> {
    json("a specification", &sandbox.spec, MAX_SPEC_BYTES)
}
