//! The steps of the demo after the server has started.

use std::path::Path;

use elevo_api as api;
use reqwest::Method;

use super::script::{CONTESTED, PARTS, PROJECT, Part};
use super::stage::Stage;
use super::workplaces::{Agent, Workplace, Workplaces};
use crate::client::Client;
use crate::client::pages::items;
use crate::client::paths::{AGENTS, PROJECTS, project_path, review_path, workspace_path};
use crate::errors::DemoProblem;
use crate::output::format::{first_line, short_id};

/// Shows all steps. `files` is a directory with the files of the project.
pub(super) fn play(
    stage: &mut Stage,
    client: &Client,
    workplaces: &Workplaces,
    files: &Path,
) -> anyhow::Result<()> {
    create_project(stage, client, files)?;
    let agents = create_agents(stage, client)?;
    let mut play = Play {
        stage,
        client,
        workplaces,
        agents,
    };
    let places = play.create_workplaces()?;
    play.change(&places)?;
    play.fork(&places[0])?;
    let review = play.merge(&places)?;
    play.decide(&review)?;
    play.look_back()
}

fn create_project(stage: &mut Stage, client: &Client, files: &Path) -> anyhow::Result<()> {
    let creating = async {
        let wish = api::CreateProject {
            name: PROJECT.into(),
            description: None,
            snapshot: None,
            policy: None,
            retention: None,
        };
        let _: api::Project = client.post(&PROJECTS, &wish).await?;
        let wish = api::ImportSource {
            directory: Some(files.to_string_lossy().into_owned()),
            message: "the first files".into(),
            git: None,
            revision: None,
            history: false,
            snapshot: None,
            path: None,
            dry_run: false,
        };
        let path = project_path(PROJECT, &["import"]);
        let imported: api::ImportResult = client.post(&path, &wish).await?;
        Ok(imported.merge.landed)
    };
    let (landed, time) = stage.timed("creating the project", creating)?;
    let paths: Vec<_> = landed.iter().map(|file| file.path.as_str()).collect();
    let command = format!("elevo project create {PROJECT} --from ./{PROJECT}");
    stage.tell("project", &command, time, &[paths.join("  ")])
}

fn create_agents(stage: &mut Stage, client: &Client) -> anyhow::Result<Vec<Agent>> {
    let creating = async {
        let mut agents = Vec::new();
        for Part { agent: name, .. } in &PARTS {
            let wish = api::CreateAgent {
                name: (*name).into(),
            };
            let made: api::Agent = client.post(&AGENTS, &wish).await?;
            agents.push(Agent { name, id: made.id });
        }
        Ok(agents)
    };
    let (agents, time) = stage.timed("creating the agents", creating)?;
    let names = PARTS.map(|part| part.agent).join(" ");
    let command = format!("for agent in {names}; do elevo agent create $agent; done");
    stage.tell("agents", &command, time, &[])?;
    Ok(agents)
}

struct Play<'a> {
    stage: &'a mut Stage,
    client: &'a Client,
    workplaces: &'a Workplaces,
    agents: Vec<Agent>,
}

impl Play<'_> {
    fn create_workplaces(&mut self) -> anyhow::Result<Vec<Workplace>> {
        self.stage.title(self.workplaces.describe())?;
        let mut made = Vec::new();
        for agent in &self.agents {
            let creating = self.workplaces.create(self.client, agent);
            let (workplace, time) = self.stage.timed("creating", creating)?;
            let command = self.workplaces.create_command(agent.name);
            self.stage.tell("create", &command, time, &[])?;
            made.push(workplace);
        }
        Ok(made)
    }

    /// Lets each agent change a file.
    fn change(&mut self, places: &[Workplace]) -> anyhow::Result<()> {
        self.stage
            .title("Each agent changes files. No other agent sees it yet.")?;
        for (part, workplace) in PARTS.iter().zip(places) {
            self.run(part.agent, workplace, part.command)?;
        }
        Ok(())
    }

    fn run(&mut self, name: &str, workplace: &Workplace, line: &str) -> anyhow::Result<()> {
        let running = self.workplaces.run(self.client, workplace, line);
        let (output, time) = self.stage.timed("running a command", running)?;
        let command = self.workplaces.run_command(name, line);
        let lines: Vec<_> = output
            .lines()
            .map(|line| first_line(line).into_owned())
            .collect();
        self.stage.tell("exec", &command, time, &lines)
    }

    /// Forks the place of the first agent, and shows that the fork has the change.
    fn fork(&mut self, workplace: &Workplace) -> anyhow::Result<()> {
        self.stage
            .title("A fork has the same files, for another try.")?;
        let name = PARTS[0].agent;
        let fork = format!("{name}-2");
        let forking = self.workplaces.fork(self.client, workplace, &fork);
        let (forked, time) = self.stage.timed("forking", forking)?;
        let command = self.workplaces.fork_command(name, &fork);
        self.stage.tell("fork", &command, time, &[])?;
        self.run(&fork, &forked, "cat hours.txt")
    }

    /// Merges all changes. Returns the id of the review of the last one.
    fn merge(&mut self, places: &[Workplace]) -> anyhow::Result<String> {
        self.stage
            .title("The agents merge. The last two changed the same line.")?;
        let mut review = None;
        for (part, workplace) in PARTS.iter().zip(places) {
            let wish = api::Merge {
                message: part.message.into(),
                ..api::Merge::default()
            };
            let path = workspace_path(&workplace.id, &["merge"]);
            let merging = async { Ok(self.client.post(&path, &wish).await?) };
            let (merged, time): (api::MergeResult, _) = self.stage.timed("merging", merging)?;
            let command = format!("elevo ws merge {} -m \"{}\"", part.agent, part.message);
            self.stage
                .tell("merge", &command, time, &merge_lines(&merged))?;
            let conflicts = merged.conflicts.into_iter();
            review = review.or(conflicts.filter_map(|it| it.review_id).next());
        }
        Ok(review.ok_or(DemoProblem::Unexpected("no change is held for review"))?)
    }

    fn decide(&mut self, id: &str) -> anyhow::Result<()> {
        self.stage
            .title("A person, or another agent, decides the conflict.")?;
        let path = review_path(id, &[]);
        let asking = async { Ok(self.client.get(&path).await?) };
        let (review, time): (api::Review, _) = self.stage.timed("reading", asking)?;
        let short = short_id(id);
        let sides = self.side_lines(&review);
        self.stage.tell(
            "review",
            &format!("elevo review show {short}"),
            time,
            &sides,
        )?;
        let wish = api::ResolveReview {
            take: api::Take::Workspace,
            content: None,
            base64: None,
            message: "try it".into(),
        };
        let path = review_path(id, &["resolve"]);
        let deciding = async { Ok(self.client.post(&path, &wish).await?) };
        let (review, time): (api::Review, _) = self.stage.timed("merging", deciding)?;
        if review.state != api::ReviewState::Resolved {
            return Err(DemoProblem::Unexpected("the review is not resolved").into());
        }
        let command = format!(
            "elevo review accept {short} --take workspace -m \"{}\"",
            wish.message
        );
        self.stage.tell("accept", &command, time, &[])
    }

    /// Describes both sides of a review.
    fn side_lines(&self, review: &api::Review) -> Vec<String> {
        let author = self.agent_name(review.agent.as_deref());
        let hunks = review.conflict.hunks.iter();
        hunks
            .flat_map(|hunk| {
                let side = |name: &str, text: &Option<String>| {
                    let text = text.as_deref().unwrap_or_default();
                    format!("{name:<12} {}", first_line(text.trim_end()))
                };
                [
                    side("before", &hunk.base),
                    side("the project", &hunk.project),
                    side(author, &hunk.workspace),
                ]
            })
            .collect()
    }

    /// Shows the history of the project and the authors of a file.
    fn look_back(&mut self) -> anyhow::Result<()> {
        self.stage
            .title("The project knows each change and each line's author.")?;
        let path = project_path(PROJECT, &["steps"]);
        let listing = async { Ok(items(self.client, &path, &[], usize::MAX).await?) };
        let (steps, time): (Vec<api::Step>, _) = self.stage.timed("reading", listing)?;
        let lines: Vec<_> = steps.iter().map(|step| self.step_line(step)).collect();
        self.stage
            .tell("log", &format!("elevo project log {PROJECT}"), time, &lines)?;
        let blaming = async {
            let path = project_path(PROJECT, &["blame"]);
            let request = self.client.request(Method::GET, &path);
            let blame: api::Blame = self
                .client
                .json(request.query(&[("path", CONTESTED)]))
                .await?;
            let path = project_path(PROJECT, &["files"]);
            let request = self.client.request(Method::GET, &path);
            let answer = self
                .client
                .send(request.query(&[("path", CONTESTED)]))
                .await?;
            let text = self.client.body(answer).await?;
            Ok((blame, String::from_utf8_lossy(&text).into_owned()))
        };
        let ((blame, text), time) = self.stage.timed("reading", blaming)?;
        let lines = self.blame_lines(&blame, &text);
        let command = format!("elevo project blame {PROJECT} {CONTESTED}");
        self.stage.tell("blame", &command, time, &lines)
    }

    fn step_line(&self, step: &api::Step) -> String {
        let agent = self.agent_name(step.agent.as_deref());
        let message = first_line(&step.message);
        format!("{:>2}  {agent:<5} {:<8} {message}", step.number, step.kind)
    }

    fn blame_lines(&self, blame: &api::Blame, text: &str) -> Vec<String> {
        let lines: Vec<_> = text.lines().collect();
        let runs = blame.lines.iter();
        runs.flat_map(|run| {
            let step = run.step.map_or("-".into(), |step| step.to_string());
            let agent = self.agent_name(run.agent.as_deref());
            let from = run.start.saturating_sub(1) as usize;
            let lines = lines.iter().skip(from).take(run.count as usize);
            lines
                .map(move |line| format!("{step:>2}  {agent:<5} {}", first_line(line)))
                .collect::<Vec<_>>()
        })
        .collect()
    }

    /// Returns the name of an agent, or `-`.
    fn agent_name(&self, id: Option<&str>) -> &'static str {
        let found = self.agents.iter().find(|agent| Some(&*agent.id) == id);
        found.map_or("-", |agent| agent.name)
    }
}

/// Describes the result of a merge.
fn merge_lines(merged: &api::MergeResult) -> Vec<String> {
    let landed = merged.landed.iter().map(|file| {
        let step = merged.step.unwrap_or_default();
        format!("landed as step {step}: {}", first_line(&file.path))
    });
    let held = merged.conflicts.iter().map(|conflict| {
        let review = conflict.review_id.as_deref().map(short_id);
        let review = review.unwrap_or_default();
        format!("held for review {review}: {}", first_line(&conflict.path))
    });
    landed.chain(held).collect()
}
