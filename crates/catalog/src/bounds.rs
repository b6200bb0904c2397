//! Bounds on the parts of a record. They are the same for every implementation,
//! so that a record that fits into one also fits into the others.

mod projects;

use std::borrow::Cow;

use elevo_core::Timestamp;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::query::SandboxQuery;
use crate::records::IdempotentRequest;
use crate::records::{Agent, ApiKey, NewEvent, Sandbox, Template, Tenant, Webhook};

pub(crate) use projects::*;
pub use projects::{
    MAX_CHANGES, MAX_COUNTS_BYTES, MAX_DETAIL_BYTES, MAX_POLICY_BYTES, MAX_REVIEWS, MAX_STEPS,
    MAX_SYNC_BYTES, MAX_UNSETTLED,
};

/// Maximum bytes of an id, name, scope or tag.
pub const MAX_NAME_BYTES: usize = 255;
/// Maximum bytes of another text: an image, a container, a description, a
/// setting.
pub const MAX_TEXT_BYTES: usize = 4096;
/// Maximum number of scopes of a key, and of tags of a template.
pub const MAX_WORDS: usize = 64;
/// Maximum bytes of a reason; a longer one is truncated.
pub const MAX_REASON_BYTES: usize = 4096;
/// Maximum bytes of the specification of a sandbox, as JSON.
pub const MAX_SPEC_BYTES: usize = 256 << 10;
/// Maximum bytes of a response that is stored for a repeated request.
pub const MAX_BODY_BYTES: usize = 64 << 10;
/// Maximum number of records that one call lists.
pub const MAX_PAGE: u32 = 1000;
/// Maximum number of sandboxes that one call adds.
pub const MAX_BATCH: usize = 1000;
/// Maximum number of records that are listed without pages: tenants, templates,
/// and agents and keys of a tenant. Also the maximum number of tags of a project.
pub const MAX_LISTED: u32 = 100_000;
/// Maximum number of webhooks of a tenant.
pub const MAX_WEBHOOKS: u32 = 20;
/// Maximum bytes of the data of an event, as JSON.
pub(crate) const MAX_EVENT_BYTES: usize = 64 << 10;

pub(crate) fn tenant(tenant: &Tenant) -> Result<()> {
    name("the name of a tenant", &tenant.name)?;
    micros(tenant.created).map(drop)
}

pub(crate) fn agent(agent: &Agent) -> Result<()> {
    name("the id of an agent", &agent.id)?;
    name("the name of an agent", &agent.name)?;
    micros(agent.created).map(drop)
}

pub(crate) fn key(key: &ApiKey) -> Result<()> {
    name("the id of a key", &key.id)?;
    name("the name of a key", &key.name)?;
    words("scopes", &key.scopes)?;
    let times = [Some(key.created), key.expires, key.revoked];
    times.into_iter().flatten().try_for_each(|time| {
        micros(time)?;
        Ok(())
    })
}

pub(crate) fn sandbox(sandbox: &Sandbox) -> Result<()> {
    name("the id of a sandbox", &sandbox.id)?;
    if let Some(text) = &sandbox.name {
        name("the name of a sandbox", text)?;
    }
    name("the template of a sandbox", &sandbox.template)?;
    text("the workspace of a sandbox", &sandbox.workspace)?;
    if let Some(container) = &sandbox.container {
        text("the container of a sandbox", container)?;
    }
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
            "a stored response has at most {MAX_BODY_BYTES} bytes"
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
    limit(query.limit)
}

pub(crate) fn limit(limit: u32) -> Result<()> {
    if limit == 0 || limit > MAX_PAGE {
        return refuse(format!("the limit of a list must be 1 to {MAX_PAGE}"));
    }
    Ok(())
}

pub(crate) fn event(event: &NewEvent) -> Result<()> {
    name("the subject of an event", &event.subject)?;
    micros(event.at)?;
    json("the data of an event", &event.data, MAX_EVENT_BYTES).map(drop)
}

pub(crate) fn webhook(webhook: &Webhook) -> Result<()> {
    name("the id of a webhook", &webhook.id)?;
    text("the address of a webhook", &webhook.url)?;
    secret(&webhook.secret)?;
    micros(webhook.created).map(drop)
}

/// Checks the secret of a webhook.
pub(crate) fn secret(secret: &str) -> Result<()> {
    text("the secret of a webhook", secret)
}

/// Returns the stored form of a specification.
pub(crate) fn spec(sandbox: &Sandbox) -> Result<String> {
    json("a specification", &sandbox.spec, MAX_SPEC_BYTES)
}

/// Returns the stored form of JSON.
pub(crate) fn json(what: &str, value: &Value, limit: usize) -> Result<String> {
    let json = value.to_string();
    if json.len() > limit {
        return refuse(format!("{what} has at most {limit} bytes"));
    }
    Ok(json)
}

/// Returns the stored form of a number.
pub(crate) fn number(what: &str, number: u64) -> Result<i64> {
    i64::try_from(number).or_else(|_| refuse(format!("{what} is too large")))
}

/// Returns the stored form of a reason. A reason that does not fit is changed,
/// not rejected: it often quotes text from outside, and the state that it
/// explains must be recorded.
pub(crate) fn reason(reason: &str) -> Cow<'_, str> {
    let cut = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
    if cut.contains('\0') {
        Cow::Owned(cut.replace('\0', "?"))
    } else {
        Cow::Borrowed(cut)
    }
}

/// Returns the stored form of a time: whole microseconds since 1970, truncated.
pub(crate) fn micros(time: Timestamp) -> Result<i64> {
    let seconds = time.seconds().checked_mul(1_000_000);
    let micros = seconds.and_then(|micros| micros.checked_add(i64::from(time.nanos() / 1000)));
    micros.map_or_else(|| refuse("a time is out of bounds"), Ok)
}

/// Returns a time as it is read back after it was stored.
pub(crate) fn kept(time: Timestamp) -> Timestamp {
    let nanos = time.nanos() / 1000 * 1000;
    Timestamp::new(time.seconds(), nanos).expect("fewer nanoseconds than before")
}

/// Checks a name: 1 to [`MAX_NAME_BYTES`], no NUL.
pub(crate) fn name(what: &str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        return refuse(format!("{what} has 1 to {MAX_NAME_BYTES} bytes"));
    }
    nul(what, text)
}

/// Checks a text: at most [`MAX_TEXT_BYTES`], no NUL.
pub(crate) fn text(what: &str, text: &str) -> Result<()> {
    if text.len() > MAX_TEXT_BYTES {
        return refuse(format!("{what} has at most {MAX_TEXT_BYTES} bytes"));
    }
    nul(what, text)
}

fn words(what: &str, words: &[String]) -> Result<()> {
    if words.len() > MAX_WORDS {
        return refuse(format!("there are at most {MAX_WORDS} {what}"));
    }
    words.iter().try_for_each(|word| name(what, word))
}

/// Rejects NUL, which not every database can store in a text.
fn nul(what: &str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return refuse(format!("{what} cannot contain NUL"));
    }
    Ok(())
}

fn refuse<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Refused(why.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters() {
        let long = "ä".repeat(MAX_REASON_BYTES);
        assert_eq!(reason(&long).len(), MAX_REASON_BYTES);
        let odd = format!("x{long}");
        assert_eq!(reason(&odd).len(), MAX_REASON_BYTES - 1);
        assert_eq!(reason("a\0b"), "a?b");
    }

    #[test]
    fn a_time_keeps_its_order_when_it_is_cut() {
        let time = |seconds, nanos| Timestamp::new(seconds, nanos).unwrap();
        assert_eq!(micros(time(-1, 999_999_999)).unwrap(), -1);
        assert_eq!(micros(time(1, 1_999)).unwrap(), 1_000_001);
        assert!(micros(time(i64::MAX, 0)).is_err());
        assert!(micros(time(i64::MIN, 0)).is_err());
    }
}
