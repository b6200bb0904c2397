//! A hundred agents finish at the same moment. Every change that can land lands, only real overlaps
//! are held, and nothing is lost.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::projects::{Served, Workspace};
use super::{Bench, CHANGED};
use crate::data::noise;
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};

const AGENTS: usize = 100;
/// Files that every agent edits.
const SHARED: usize = 3;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let agents = bench.count(AGENTS);
    let files = bench.trees.sizes.small;
    let served = Served::start(bench, &[files])?;
    let mut each = Samples::new();
    for round in 0..if bench.quick { 1 } else { 3 } {
        let seconds = bench
            .runtime
            .block_on(at_once(&served, round, agents, files))?;
        each.push(seconds / agents as f64);
    }
    Ok(vec![Row {
        name: format!("time per merge of {agents} agents at once (20 ms is 50 a second)"),
        unit: Unit::Milliseconds,
        ours: each.figure(),
        peer: None,
        bar: Some(Bar::AtMost(20.0)),
    }])
}

async fn at_once(served: &Served, round: usize, agents: usize, files: usize) -> Result<f64> {
    let name = format!("agents-{round}");
    let project = served.project(&name, files, json!({})).await?;
    let wish = json!({"project": project});
    let first = served.workspaces(1, &wish).await?;
    for file in 0..SHARED {
        first[0].write(&shared(file), text(agents, None))?;
    }
    let made = first[0].merge(&served.server).await?;
    ensure!(made["conflictCount"] == 0, "{made}");
    let workspaces = served.workspaces(agents, &wish).await?;
    for (agent, workspace) in workspaces.iter().enumerate() {
        for file in 0..CHANGED {
            workspace.write(&own(agent, file), own_content(agent, file))?;
        }
        for file in 0..SHARED {
            workspace.write(&shared(file), text(agents, Some((agent, file))))?;
        }
    }
    rustix::fs::sync();
    let began = Instant::now();
    let merges = workspaces.iter().map(|one| one.merge(&served.server));
    let merged = try_join_all(merges).await?;
    let seconds = began.elapsed().as_secs_f64();
    check(served, &project, &workspaces, &merged).await?;
    Ok(seconds)
}

fn own(agent: usize, file: usize) -> String {
    format!("agents/{agent}/{file}.bin")
}

fn own_content(agent: usize, file: usize) -> Vec<u8> {
    noise(4096, "agent", (agent * CHANGED + file) as u64)
}

fn shared(file: usize) -> String {
    format!("shared-{file}.txt")
}

/// Whether an agent edits its own place in a file, as in half of the edits. In the other half it
/// edits the contested line.
const fn is_apart(agent: usize, file: usize) -> bool {
    (agent + file).is_multiple_of(2)
}

/// A text with a place for each agent, lines between the places, and one contested line.
fn text(agents: usize, edit: Option<(usize, usize)>) -> String {
    let mut text = String::from("title\n");
    let apart = edit.filter(|(agent, file)| is_apart(*agent, *file));
    text += &match (edit, apart) {
        (Some((agent, _)), None) => contested(agent),
        _ => "nobody's\n".to_owned(),
    };
    for agent in 0..agents {
        for line in 0..4 {
            text += &format!("between {agent}.{line}\n");
        }
        text += &match apart {
            Some((editor, _)) if editor == agent => place(agent),
            _ => format!("place {agent}\n"),
        };
    }
    text
}

fn contested(agent: usize) -> String {
    format!("wanted by {agent}\n")
}

fn place(agent: usize) -> String {
    format!("place {agent} is taken\n")
}

/// Checks that every byte that an agent wrote is in the head or in an open review.
async fn check(
    served: &Served,
    project: &str,
    workspaces: &[Workspace],
    merged: &[Value],
) -> Result<()> {
    let agents = workspaces.len();
    let mut heads = Vec::new();
    for file in 0..SHARED {
        heads.push(served.file(project, &shared(file)).await?);
    }
    let mut open = open_reviews(served, project).await?;
    for (agent, workspace) in workspaces.iter().enumerate() {
        for file in 0..CHANGED {
            let url = format!("/api/v1/projects/{project}/files?path={}", own(agent, file));
            let answer = served.server.request(Method::GET, &url).send().await?;
            let found = answer.error_for_status()?.bytes().await?;
            ensure!(
                found == own_content(agent, file),
                "{} is lost",
                own(agent, file)
            );
        }
        for (file, head) in heads.iter().enumerate() {
            let (is_apart, path) = (is_apart(agent, file), shared(file));
            let words = if is_apart {
                place(agent)
            } else {
                contested(agent)
            };
            if head.contains(&format!("\n{words}")) {
                continue;
            }
            ensure!(
                !is_apart,
                "{path}: the separate edit of agent {agent} did not land"
            );
            let review = open.remove(&(workspace.id.clone(), path.clone()));
            let review = review.with_context(|| format!("{path}: agent {agent} lost an edit"))?;
            let url = format!("/api/v1/reviews/{review}/content?side=theirs");
            let held = served.server.request(Method::GET, &url).send().await?;
            let held = held.error_for_status()?.text().await?;
            ensure!(
                held == text(agents, Some((agent, file))),
                "{path}: the held edit of agent {agent} was changed"
            );
        }
    }
    ensure!(open.is_empty(), "held without a reason: {open:?}");
    let held = |done: &Value| done["conflictCount"].as_u64().unwrap_or_default();
    let held: u64 = merged.iter().map(held).sum();
    // In each shared file, one of the edits of the contested line lands, and the others are held.
    let wanted = (0..SHARED).flat_map(|file| (0..agents).filter(move |one| !is_apart(*one, file)));
    let expected = wanted.count() - SHARED;
    ensure!(held == expected as u64, "{held} held, not {expected}");
    Ok(())
}

/// The ids of open reviews by workspace and path.
async fn open_reviews(served: &Served, project: &str) -> Result<HashMap<(String, String), String>> {
    let mut open = HashMap::new();
    let mut cursor = String::new();
    loop {
        let url = format!("/api/v1/reviews?project={project}&state=open&limit=100{cursor}");
        let page = served.server.get(&url).await?;
        for item in page["items"].as_array().context("it has items")? {
            let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
            open.insert((text("workspace"), text("path")), text("id"));
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(open),
        }
    }
}
