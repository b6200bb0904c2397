use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::names::{AgentNames, Noun, find};
use crate::client::paths::project_path;
use crate::client::project_state::resolve;
use crate::client::{Call, project_file};
use crate::output::FAINT;
use crate::output::format::first_line;
use crate::output::relative_time::relative;
use crate::output::styled_line::StyledLine;

/// Show which step and agent wrote each line of a file.
#[derive(Debug, Args)]
#[command(after_help = "\
Before each line: the step that added it, the agent and the time.

Examples:
  elevo project blame site index.html
  elevo project blame site index.html --at 3      as it was after step 3
  elevo project blame site index.html --ids       ids of agents, not names
  elevo project blame site index.html --json | jq '.lines[].agent'")]
pub(super) struct Blame {
    /// The project, by name or id
    name: String,

    /// The file
    path: String,

    /// State of the project; the newest by default
    #[arg(long, value_name = "REV")]
    at: Option<String>,

    /// Show ids of agents instead of names
    #[arg(long)]
    ids: bool,
}

pub(super) fn run(call: &mut Call, args: &Blame) -> anyhow::Result<()> {
    let project = find(call, Noun::Project, &args.name)?;
    let at = resolve(call, &project, args.at.as_deref().unwrap_or("head"))?;
    let path = project_path(&project, &["blame"]);
    let request = call.client.request(Method::GET, &path);
    let request = request.query(&[("path", &args.path), ("snapshot", &at)]);
    let blame: api::Blame = call.watch("looking", call.client.json(request))?;
    if call.output.is_json() {
        return Ok(call.output.value(&blame)?);
    }
    let text = project_file::read_text(call, &project, &args.path, Some(&blame.snapshot))?;
    let lines: Vec<&str> = text.lines().collect();
    let agents = match args.ids {
        true => AgentNames::default(),
        false => AgentNames::request(call),
    };
    let who = |run: &api::BlamedLines| {
        let agent = agents.or_dash(run.agent.as_deref());
        first_line(&agent).into_owned()
    };
    let widest = blame.lines.iter().map(|run| who(run).chars().count()).max();
    let (widest, digits) = (widest.unwrap_or(0), lines.len().to_string().len());
    for run in &blame.lines {
        let step = run.step.map_or("-".into(), |step| step.to_string());
        let when = run.created_at.as_deref().map(relative).unwrap_or_default();
        let about = format!("{step:>5}  {:<widest$}  {when:<15}", who(run));
        for number in run.start..run.start.saturating_add(run.count) {
            let line = lines.get(number.saturating_sub(1) as usize).copied();
            let Some(line) = line else { break };
            let about = call
                .output
                .styled(FAINT, format!("{about}  {number:>digits$} │ "));
            let mut painted = StyledLine::default();
            painted.push(anstyle::Style::new(), line);
            let line = painted.bytes(&call.output);
            call.output.line([&about[..], &line].concat())?;
        }
    }
    Ok(())
}
