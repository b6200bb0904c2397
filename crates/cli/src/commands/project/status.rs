use clap::Args;
use elevo_api as api;
use serde_json::json;

use crate::client::Call;
use crate::client::names::{AgentNames, Noun, find};
use crate::client::pages::{items, page};
use crate::client::paths::{REVIEWS, WORKSPACES, project_path};
use crate::client::workspace::workspace_state;
use crate::output::STRONG;
use crate::output::format::{first_line, short_id, short_text};
use crate::output::notes::field;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// Show the head, the open reviews and the workspaces of a project.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project status site
  elevo project status site --json | jq '.reviews | length'")]
pub(super) struct Status {
    /// The project, by name or id
    name: String,
}

pub(super) fn run(call: &mut Call, args: &Status) -> anyhow::Result<()> {
    let project = find(call, Noun::Project, &args.name)?;
    let project: api::Project = call.wait(call.client.get(&project_path(&project, &[])))?;
    let mut query = vec![("project", project.id.clone())];
    let workspaces: Vec<api::Workspace> =
        call.wait(items(&call.client, &WORKSPACES, &query, usize::MAX))?;
    query.push(("state", "open".into()));
    let reviews: Vec<api::Review> = call.wait(items(&call.client, &REVIEWS, &query, usize::MAX))?;
    if call.output.is_json() {
        return Ok(call.output.value(&json!({
            "project": project,
            "reviews": reviews,
            "workspaces": workspaces,
        }))?);
    }
    print_head(call, &project)?;
    let agents = AgentNames::request(call);
    print_reviews(call, &reviews, &agents)?;
    print_workspaces(call, &project, &workspaces, &agents)
}

fn print_head(call: &mut Call, project: &api::Project) -> anyhow::Result<()> {
    let path = project_path(&project.id, &["steps"]);
    let newest = call.wait(page::<api::Step>(&call.client, &path, &[], None, 1))?;
    let newest = newest.items.into_iter().next();
    let mut head = format!("{}, step {}", short_text(&project.head), project.step);
    if let Some(step) = newest {
        head += &format!(", {}", relative(&step.created_at));
        if !step.message.is_empty() {
            head += &format!(": {}", first_line(&step.message));
        }
    }
    field(&mut call.output, "project", &project.name)?;
    Ok(field(&mut call.output, "head", &head)?)
}

fn print_reviews(
    call: &mut Call,
    reviews: &[api::Review],
    agents: &AgentNames,
) -> anyhow::Result<()> {
    heading(call, "Open reviews", reviews.len())?;
    if reviews.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["REVIEW", "AGENT", "OPENED", "PATH"]);
    for review in reviews {
        table.row([
            short_id(&review.id),
            agents.or_dash(review.agent.as_deref()),
            relative(&review.created_at),
            review.conflict.path.clone(),
        ]);
    }
    table.print(&mut call.output)
}

fn print_workspaces(
    call: &mut Call,
    project: &api::Project,
    workspaces: &[api::Workspace],
    agents: &AgentNames,
) -> anyhow::Result<()> {
    heading(call, "Workspaces", workspaces.len())?;
    if workspaces.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["WORKSPACE", "NAME", "AGENT", "STATE", "MERGES", "BASE"]);
    for workspace in workspaces {
        let base = match workspace.synced == project.head {
            true => "head".to_owned(),
            false => short_text(&workspace.synced),
        };
        table.row([
            short_id(&workspace.id),
            workspace.name.clone().unwrap_or_else(|| "-".into()),
            agents.or_dash(workspace.agent.as_deref()),
            workspace_state(workspace),
            workspace.merges.to_string(),
            base,
        ]);
    }
    table.print(&mut call.output)
}

fn heading(call: &mut Call, text: &str, count: usize) -> anyhow::Result<()> {
    call.output.line("")?;
    let text = call.output.styled(STRONG, format!("{text}: {count}"));
    Ok(call.output.line(text)?)
}
