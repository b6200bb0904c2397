//! Resolves names of project states to snapshot ids.

use elevo_api as api;
use reqwest::Method;

use crate::client::call::Call;
use crate::client::error::Result;
use crate::client::http::Client;
use crate::client::paths::project_path;
use crate::errors::ProjectProblem;

/// Minimum digits of an abbreviated id; fewer are the number of a step.
const LEAST: usize = 6;

/// Digits of a complete id.
const WHOLE: usize = 64;

/// Maximum number of steps searched for an abbreviated id.
const MOST: u64 = 10_000;

const PAGE: u32 = 100;

/// Resolves `head`, the number of a step or an abbreviated id to a snapshot id.
pub(crate) fn resolve(call: &Call, project: &str, text: &str) -> anyhow::Result<String> {
    let digits = text.len();
    let found = if text == "head" {
        let found: api::Project = call.wait(call.client.get(&project_path(project, &[])))?;
        Some(found.head)
    } else if let Some(step) = text.parse().ok().filter(|_| digits < LEAST) {
        call.wait(of_step(&call.client, project, step))?
    } else if !(LEAST..WHOLE).contains(&digits)
        || !text.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        // A tag or a complete id, or an invalid name that the server reports.
        return Ok(text.to_owned());
    } else {
        let finding = by_first_digits(&call.client, project, text);
        call.watch("looking for the snapshot", finding)?
    };
    found.ok_or_else(|| {
        let (project, text) = (project.to_owned(), text.to_owned());
        ProjectProblem::UnknownStep { project, text }.into()
    })
}

/// Like [`resolve`], for an optional name.
pub(crate) fn resolve_some(
    call: &Call,
    project: &str,
    text: Option<&String>,
) -> anyhow::Result<Option<String>> {
    text.map(|text| resolve(call, project, text)).transpose()
}

/// Returns the steps before a number, or the newest steps.
pub(crate) async fn steps(
    client: &Client,
    project: &str,
    before: Option<u64>,
    limit: u32,
) -> Result<api::LogPage> {
    let mut query = vec![("limit", limit.to_string())];
    query.extend(before.map(|before| ("before", before.to_string())));
    let request = client.request(Method::GET, &project_path(project, &["log"]));
    client.json(request.query(&query)).await
}

/// The snapshot of a step. Step 0 is the state before the first step.
async fn of_step(client: &Client, project: &str, step: u64) -> Result<Option<String>> {
    let first = step.max(1);
    let page = steps(client, project, Some(first + 1), 1).await?;
    let found = page.items.into_iter().find(|it| it.sequence == first);
    match (found, step) {
        (Some(found), 0) => Ok(Some(found.parent)),
        (found, 1..) => Ok(found.map(|found| found.snapshot)),
        // Without any step, the head is the initial state.
        (None, 0) => {
            let found: api::Project = client.get(&project_path(project, &[])).await?;
            Ok(Some(found.head))
        }
    }
}

async fn by_first_digits(client: &Client, project: &str, text: &str) -> Result<Option<String>> {
    let text = text.to_ascii_lowercase();
    let (mut before, mut seen) = (None, 0);
    while seen < MOST {
        let page = steps(client, project, before, PAGE).await?;
        for step in page.items {
            seen += 1;
            if step.snapshot.starts_with(&text) {
                return Ok(Some(step.snapshot));
            }
            if step.sequence == 1 && step.parent.starts_with(&text) {
                return Ok(Some(step.parent));
            }
        }
        before = match page.next {
            Some(next) => Some(next),
            None => break,
        };
    }
    let found: api::Project = client.get(&project_path(project, &[])).await?;
    Ok(Some(found.head).filter(|head| head.starts_with(&text)))
}
