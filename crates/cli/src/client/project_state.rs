//! Resolves names of project states to snapshot ids.

use elevo_api as api;
use elevo_core::ErrorCode;

use crate::client::call::Call;
use crate::client::error::Result;
use crate::client::http::Client;
use crate::client::pages::{PAGE, page};
use crate::client::paths::project_path;
use crate::client::workspace::workspace_here;
use crate::errors::ProjectProblem;

/// Minimum digits of an abbreviated id; fewer are the number of a step.
const LEAST: usize = 6;

/// Digits of a complete id.
const WHOLE: usize = 64;

/// Maximum number of steps searched for an abbreviated id.
const MOST: u64 = 10_000;

/// A name of a state, and the number of steps to go back from it.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    text: &'a str,
    back: Option<u64>,
}

impl<'a> Name<'a> {
    /// Parses `REV`, `REV~` and `REV~N`. Returns `None` if N is not a number.
    fn parse(text: &'a str) -> Option<Self> {
        let (text, back) = match text.split_once('~') {
            Some((text, "")) => (text, Some(1)),
            Some((text, back)) => (text, Some(back.parse().ok()?)),
            None => (text, None),
        };
        let text = match text {
            "HEAD" => "head",
            text => text,
        };
        Some(Self { text, back })
    }

    /// The number of a step, unless it has as many digits as an abbreviated id.
    fn step(&self) -> Option<u64> {
        let is_short = self.text.len() < LEAST;
        self.text.parse().ok().filter(|_| is_short)
    }

    /// Whether it is an id or an abbreviated id. A tag never looks like one.
    fn is_id(&self) -> bool {
        let mut bytes = self.text.bytes();
        self.text.len() >= LEAST && bytes.all(|byte| byte.is_ascii_hexdigit())
    }
}

/// Resolves the name of a state to a snapshot id: `head`, `@`, a tag, the number
/// of a step, an id or an abbreviated id, and `~N` behind one of them.
pub(crate) fn resolve(call: &Call, project: &str, text: &str) -> anyhow::Result<String> {
    let name = Name::parse(text);
    let found = match name.as_ref() {
        None => None,
        Some(name) => match name.back {
            Some(back) => go_back(call, project, name, back)?,
            None => of_name(call, project, name)?,
        },
    };
    found.ok_or_else(|| {
        let (project, text) = (project.to_owned(), text.to_owned());
        ProjectProblem::UnknownStep { project, text }.into()
    })
}

/// The snapshot of a name without `~`.
fn of_name(call: &Call, project: &str, name: &Name<'_>) -> anyhow::Result<Option<String>> {
    if name.text == "head" {
        let found: api::Project = call.wait(call.client.get(&project_path(project, &[])))?;
        return Ok(Some(found.head));
    }
    if name.text == "@" {
        let here = workspace_here(call)?;
        return Ok(Some(here.synced));
    }
    if let Some(step) = name.step() {
        return Ok(call.wait(of_step(&call.client, project, step))?);
    }
    if name.is_id() && name.text.len() < WHOLE {
        let finding = by_first_digits(&call.client, project, name.text);
        let found = call.watch("looking for the snapshot", finding)?;
        return Ok(found.map(|found| found.snapshot));
    }
    // A tag or a complete id, or an invalid name that the server reports.
    Ok(Some(name.text.to_owned()))
}

/// The snapshot of the state `back` steps before a name.
fn go_back(
    call: &Call,
    project: &str,
    name: &Name<'_>,
    back: u64,
) -> anyhow::Result<Option<String>> {
    let client = &call.client;
    let step = match name.step() {
        Some(step) => Some(step),
        None if name.text == "head" => {
            let found: api::Project = call.wait(client.get(&project_path(project, &[])))?;
            Some(found.step)
        }
        None => {
            let digits = match name.text {
                "@" => Some(workspace_here(call)?.synced),
                digits if name.is_id() => Some(digits.to_owned()),
                tag => call.wait(of_tag(client, project, tag))?,
            };
            let Some(digits) = digits else {
                return Ok(None);
            };
            let finding = by_first_digits(client, project, &digits);
            let found = call.watch("looking for the snapshot", finding)?;
            found.map(|found| found.step)
        }
    };
    match step.and_then(|step| step.checked_sub(back)) {
        Some(step) => Ok(call.wait(of_step(client, project, step))?),
        None => Ok(None),
    }
}

/// The snapshot of a tag.
async fn of_tag(client: &Client, project: &str, tag: &str) -> Result<Option<String>> {
    let path = project_path(project, &["tags"]);
    let mut cursor = None::<String>;
    loop {
        let page = page::<api::Tag>(client, &path, &[], cursor.as_deref(), PAGE).await?;
        if let Some(found) = page.items.into_iter().find(|it| it.name == tag) {
            return Ok(Some(found.snapshot));
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(None);
        }
    }
}

/// Like [`resolve`], for an optional name.
pub(crate) fn resolve_some(
    call: &Call,
    project: &str,
    text: Option<&String>,
) -> anyhow::Result<Option<String>> {
    text.map(|text| resolve(call, project, text)).transpose()
}

/// Requests a step.
async fn step(client: &Client, project: &str, number: u64) -> Result<Option<api::Step>> {
    let number = number.to_string();
    let path = project_path(project, &["steps", &number]);
    match client.get(&path).await {
        Ok(step) => Ok(Some(step)),
        Err(error) if error.code() == Some(ErrorCode::StepNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The snapshot of a step. Step 0 is the state before the first step.
async fn of_step(client: &Client, project: &str, number: u64) -> Result<Option<String>> {
    let found = step(client, project, number.max(1)).await?;
    match (found, number) {
        (Some(found), 0) => Ok(Some(found.parent)),
        (found, 1..) => Ok(found.map(|found| found.snapshot)),
        // Without any step, the head is the initial state.
        (None, 0) => {
            let found: api::Project = client.get(&project_path(project, &[])).await?;
            Ok(Some(found.head))
        }
    }
}

/// A state of a project.
struct Found {
    snapshot: String,
    step: u64,
}

async fn by_first_digits(client: &Client, project: &str, text: &str) -> Result<Option<Found>> {
    let text = text.to_ascii_lowercase();
    let found = |snapshot: String, step| Ok(Some(Found { snapshot, step }));
    let path = project_path(project, &["steps"]);
    let (mut cursor, mut seen) = (None::<String>, 0);
    while seen < MOST {
        let page = page::<api::Step>(client, &path, &[], cursor.as_deref(), PAGE).await?;
        for step in page.items {
            seen += 1;
            if step.snapshot.starts_with(&text) {
                return found(step.snapshot, step.number);
            }
            if step.number == 1 && step.parent.starts_with(&text) {
                return found(step.parent, 0);
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let project: api::Project = client.get(&project_path(project, &[])).await?;
    match project.head.starts_with(&text) {
        true => found(project.head, project.step),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_go_back_some_steps() {
        let name = |text, back| Some(Name { text, back });
        assert_eq!(Name::parse("HEAD"), name("head", None));
        assert_eq!(Name::parse("v1~"), name("v1", Some(1)));
        assert_eq!(Name::parse("head~12"), name("head", Some(12)));
        assert_eq!(Name::parse("7~x"), None);
    }

    #[test]
    fn few_digits_are_a_step_and_more_an_id() {
        let name = |text| Name { text, back: None };
        assert_eq!(name("12345").step(), Some(12_345));
        assert_eq!(name("123456").step(), None);
        assert!(name("123456").is_id());
        assert!(!name("v12345").is_id());
    }
}
