//! The places that agents work in: sandboxes of one template, or directories.

use std::path::PathBuf;
use std::process::Stdio;

use elevo_api as api;
use tokio::process::Command;

use super::script::PROJECT;
use super::stage::Stage;
use crate::client::Client;
use crate::client::pages::items;
use crate::client::paths::{SANDBOXES, TEMPLATES, WORKSPACES, sandbox_path, workspace_path};
use crate::errors::DemoProblem;

/// Name of the template that a release brings with it.
const BUILT_IN: &str = "busybox";

/// The kind of all places.
pub(super) enum Workplaces {
    Sandboxes { template: String },
    Directories,
}

/// The place of one agent.
pub(super) struct Workplace {
    /// Id of the sandbox, and of its workspace; or of the workspace.
    pub(super) id: String,
    /// Directory of a workspace without a sandbox.
    directory: Option<PathBuf>,
}

impl Workplaces {
    /// Finds the built-in template, or creates one of an image.
    pub(super) fn in_sandboxes(
        stage: &Stage,
        client: &Client,
        image: Option<&str>,
    ) -> anyhow::Result<Self> {
        let template = match image {
            Some(image) => {
                let wish = api::AddTemplate {
                    name: image.into(),
                    image: Some(image.into()),
                    description: None,
                    tags: Vec::new(),
                    writable_root: false,
                };
                let adding = async { Ok(client.post(&TEMPLATES, &wish).await?) };
                let added: api::Template = stage.wait("pulling the image", adding)?;
                added.name
            }
            None => {
                let listing = async { Ok(items(client, &TEMPLATES, &[], usize::MAX).await?) };
                let all: Vec<api::Template> = stage.wait("looking for the template", listing)?;
                let found = all.into_iter().find(|it| it.name == BUILT_IN);
                found.ok_or(DemoProblem::NoTemplate)?.name
            }
        };
        Ok(Self::Sandboxes { template })
    }

    /// Says where the agents work.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Self::Sandboxes { .. } => {
                "Each agent gets a container with its own branch of the project."
            }
            Self::Directories => "Each agent gets a directory with its own branch of the project.",
        }
    }

    /// Creates the place of an agent, which has the agent's name.
    pub(super) async fn create(&self, client: &Client, agent: &Agent) -> anyhow::Result<Workplace> {
        let (name, agent) = (agent.name, agent.id.clone());
        match self {
            Self::Sandboxes { template } => {
                let source = api::ProjectSource {
                    name: PROJECT.into(),
                    agent: Some(agent),
                    snapshot: None,
                    read_only: false,
                    sync: api::Sync::default(),
                };
                let wish = api::CreateSandbox {
                    template: template.clone(),
                    name: Some(name.into()),
                    workspace: Some(api::WorkspaceSource::Project(source)),
                    ..api::CreateSandbox::default()
                };
                let made: api::Sandbox = client.post(&SANDBOXES, &wish).await?;
                Ok(made.into())
            }
            Self::Directories => {
                let wish = api::CreateWorkspace {
                    project: PROJECT.into(),
                    agent: Some(agent),
                    name: Some(name.into()),
                    snapshot: None,
                    disk: None,
                    owner: None,
                    read_only: false,
                    sync: api::Sync::default(),
                };
                let made: api::Workspace = client.post(&WORKSPACES, &wish).await?;
                Ok(made.into())
            }
        }
    }

    /// Creates a copy of a place.
    pub(super) async fn fork(
        &self,
        client: &Client,
        workplace: &Workplace,
        name: &str,
    ) -> anyhow::Result<Workplace> {
        let name = Some(name.to_owned());
        let forked = match self {
            Self::Sandboxes { .. } => {
                let wish = api::Fork {
                    name,
                    ..api::Fork::default()
                };
                let path = sandbox_path(&workplace.id, &["fork"]);
                let forked: api::Forked = client.post(&path, &wish).await?;
                forked.succeeded.into_iter().next().map(Workplace::from)
            }
            Self::Directories => {
                let wish = api::ForkWorkspace { count: None, name };
                let path = workspace_path(&workplace.id, &["fork"]);
                let forked: api::WorkspacesForked = client.post(&path, &wish).await?;
                forked.succeeded.into_iter().next().map(Workplace::from)
            }
        };
        Ok(forked.ok_or(DemoProblem::Unexpected("the fork failed"))?)
    }

    /// Runs a command line in a place, and returns its output.
    pub(super) async fn run(
        &self,
        client: &Client,
        workplace: &Workplace,
        line: &str,
    ) -> anyhow::Result<String> {
        let (code, output) = match &workplace.directory {
            None => {
                let wish = api::RunCommand {
                    command: Some(line.into()),
                    ..api::RunCommand::default()
                };
                let path = sandbox_path(&workplace.id, &["process", "run"]);
                let ended: api::CommandResult = client.post(&path, &wish).await?;
                (Some(ended.exit_code), ended.stdout)
            }
            Some(directory) => {
                let mut command = Command::new("/bin/sh");
                command.args(["-c", line]).current_dir(directory);
                command.stdin(Stdio::null()).stderr(Stdio::null());
                let ended = command.kill_on_drop(true).output().await?;
                let output = String::from_utf8_lossy(&ended.stdout).into_owned();
                (ended.status.code(), output)
            }
        };
        match code {
            Some(0) => Ok(output),
            _ => Err(DemoProblem::Command(line.into()).into()),
        }
    }

    /// Returns the command that creates the place of an agent.
    pub(super) fn create_command(&self, agent: &str) -> String {
        let options = format!("--project {PROJECT} --agent {agent}");
        match self {
            Self::Sandboxes { template } => {
                format!("elevo sandbox create {template} --name {agent} {options}")
            }
            Self::Directories => format!("{agent}=$(elevo ws create {agent} {options})"),
        }
    }

    /// Returns the command that runs a command line in a place.
    pub(super) fn run_command(&self, name: &str, line: &str) -> String {
        match self {
            Self::Sandboxes { .. } => format!("elevo exec {name} -- {}", quoted(line)),
            Self::Directories => format!("(cd \"${}\" && {line})", name.replace('-', "_")),
        }
    }

    /// Returns the command that forks a place.
    pub(super) fn fork_command(&self, name: &str, fork: &str) -> String {
        match self {
            Self::Sandboxes { .. } => format!("elevo sandbox fork {name} --name {fork}"),
            Self::Directories => {
                let variable = fork.replace('-', "_");
                format!("{variable}=$(elevo ws fork {name} --name {fork})")
            }
        }
    }
}

/// Quotes a command line for a shell: with single quotes unless it has some.
fn quoted(line: &str) -> String {
    match line.contains('\'') {
        true => format!("\"{line}\""),
        false => format!("'{line}'"),
    }
}

/// An agent of the demo.
pub(super) struct Agent {
    pub(super) name: &'static str,
    pub(super) id: String,
}

impl From<api::Sandbox> for Workplace {
    fn from(sandbox: api::Sandbox) -> Self {
        Self {
            id: sandbox.id,
            directory: None,
        }
    }
}

impl From<api::Workspace> for Workplace {
    fn from(workspace: api::Workspace) -> Self {
        Self {
            id: workspace.id,
            directory: workspace.path.map(PathBuf::from),
        }
    }
}
