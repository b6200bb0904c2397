//! The calls of [`SandboxRuntime`], as calls of the Docker engine.

use super::engine::Engine;
use super::failure::Subject;
use super::{
    DockerRuntime, LABEL_SANDBOX, LABEL_SERVER, READING, create_request, images, logs, registries,
    sight, stats,
};
use crate::error::{Error, Result};
use crate::runtime::{
    Container, ContainerId, ContainerState, ContainerStatus, Image, Logs, LogsQuery, PullProgress,
    RuntimeInfo, SandboxRuntime, Stats,
};
use crate::spec::{ContainerSpec, Network};
use async_trait::async_trait;
use bollard::models::{ContainerInspectResponse, ContainerStateStatusEnum};
use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, KillContainerOptionsBuilder, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder,
};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::collections::HashMap;
use std::io;
use std::path::Path;

#[async_trait]
impl SandboxRuntime for DockerRuntime {
    async fn check(&self) -> Result<RuntimeInfo> {
        let engine = Engine::read(&self.docker, &self.settings.host).await?;
        let mut info = engine.info.clone();
        *self.engine.write() = engine;
        match self.internet.repair().await {
            Ok(()) => info.internet = None,
            Err(Error::Refused { why, .. }) => info.internet = Some(why),
            Err(error) => return Err(error),
        }
        Ok(info)
    }

    async fn sees(&self, path: &Path) -> Result<Option<bool>> {
        let seen = sight::sees(&self.docker, path).await;
        seen.map_err(|error| self.error(Subject::Engine, error))
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId> {
        spec.validate()?;
        self.engine().check_limits(spec)?;
        let volumes = images::volumes(&self.docker, &self.settings.host, &spec.image).await?;
        if spec.network == Network::Internet {
            self.internet.ensure().await?;
        }
        let options = CreateContainerOptionsBuilder::default()
            .name(&spec.sandbox)
            .build();
        let disks = self.disks(spec).await;
        let request = |disks| {
            create_request::build(spec, &volumes, &self.settings, self.internet.dns(), disks)
        };
        let create = |request| self.docker.create_container(Some(options.clone()), request);
        let mut created = create(request(&disks)).await;
        if let Err(error) = &created
            && disks.iter().any(|disk| error.to_string().contains(disk))
        {
            tracing::warn!(%error, "cannot limit the disk access of a sandbox");
            created = create(request(&[])).await;
        }
        let created = created.map_err(|error| self.error(Subject::Spec(spec), error))?;
        let id = ContainerId(created.id);
        self.refuse_warnings(&id, &created.warnings).await?;
        Ok(id)
    }

    async fn start(&self, id: &ContainerId) -> Result<()> {
        let found = self.inspect(id).await?;
        match state_of(&found).state {
            ContainerState::Running => return Ok(()),
            ContainerState::Frozen => return self.thaw(id).await,
            _ => {}
        }
        let network = found.host_config.and_then(|config| config.network_mode);
        let on_internet = network.as_deref() == Some(&*self.settings.network);
        if on_internet {
            self.internet.ensure().await?;
        }
        let image = found.config.and_then(|config| config.image);
        let started = self.docker.start_container(id.as_str(), None).await;
        started.map_err(|error| {
            let image = image.unwrap_or_default();
            self.error(Subject::Start { id, image: &image }, error)
        })?;
        if on_internet {
            self.hide_names(id).await?;
        }
        self.bound_terminals(id).await
    }

    async fn kill(&self, id: &ContainerId) -> Result<()> {
        let options = KillContainerOptionsBuilder::default()
            .signal("SIGKILL")
            .build();
        let killed = self.docker.kill_container(id.as_str(), Some(options)).await;
        match killed.map_err(|error| self.error(Subject::Container(id), error)) {
            // A conflict means that the container is not running.
            Ok(()) | Err(Error::Conflict { .. }) => self.ended(id).await,
            Err(error) => ignore_missing_container(error),
        }
    }

    async fn remove(&self, id: &ContainerId) -> Result<()> {
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        let removed = self
            .docker
            .remove_container(id.as_str(), Some(options))
            .await;
        match removed.map_err(|error| self.error(Subject::Container(id), error)) {
            Ok(()) => Ok(()),
            // Another call is removing the container.
            Err(Error::Conflict { .. }) => self.gone(id).await,
            Err(error) => ignore_missing_container(error),
        }
    }

    async fn status(&self, id: &ContainerId) -> Result<Option<ContainerStatus>> {
        match self.inspect(id).await {
            Ok(found) => Ok(Some(state_of(&found))),
            Err(Error::NoSuchContainer { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list(&self) -> Result<Vec<Container>> {
        let label = format!("{LABEL_SERVER}={}", self.settings.server);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&HashMap::from([("label", vec![label])]))
            .build();
        let found = self.docker.list_containers(Some(options)).await;
        let found = found.map_err(|error| self.error(Subject::Engine, error))?;
        Ok(found.into_iter().filter_map(listed).collect())
    }

    async fn logs(&self, id: &ContainerId, query: &LogsQuery) -> Result<Logs> {
        let reading = tokio::time::timeout(READING, logs::read(&self.docker, id, query));
        let read = reading
            .await
            .unwrap_or(Err(bollard::errors::Error::RequestTimeoutError));
        read.map_err(|error| self.error(Subject::Container(id), error))
    }

    async fn stats(&self, id: &ContainerId) -> Result<Stats> {
        let measured = stats::measure(&self.docker, id).await;
        measured.map_err(|error| self.error(Subject::Container(id), error))
    }

    async fn freeze(&self, id: &ContainerId) -> Result<()> {
        let Err(error) = self.docker.pause_container(id.as_str()).await else {
            return Ok(());
        };
        match self.inspect(id).await {
            Ok(found) if state_of(&found).state == ContainerState::Frozen => Ok(()),
            _ => Err(self.error(Subject::Container(id), error)),
        }
    }

    async fn thaw(&self, id: &ContainerId) -> Result<()> {
        let Err(error) = self.docker.unpause_container(id.as_str()).await else {
            return Ok(());
        };
        match self.inspect(id).await {
            Ok(found) if state_of(&found).state == ContainerState::Running => Ok(()),
            _ => Err(self.error(Subject::Container(id), error)),
        }
    }

    async fn image(&self, name: &str) -> Result<Option<Image>> {
        images::image(&self.docker, &self.settings.host, name).await
    }

    async fn pull(&self, name: &str) -> BoxStream<'static, Result<PullProgress>> {
        let credentials = match &self.settings.registries {
            Some(file) => registries::credentials(file, name).await,
            None => Ok(None),
        };
        match credentials {
            Ok(credentials) => {
                let host = self.settings.host.clone();
                images::pull(self.docker.clone(), host, name, credentials)
            }
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn load(&self, archive: BoxStream<'static, io::Result<Bytes>>) -> Result<Vec<String>> {
        images::load(&self.docker, &self.settings.host, archive).await
    }

    async fn remove_image(&self, name: &str) -> Result<()> {
        images::remove(&self.docker, &self.settings.host, name).await
    }

    async fn tear_down(&self) -> Result<()> {
        // The engine refuses to remove a network only while containers run on
        // it. Stopped containers could not start again without the network.
        let left = self.list().await?.len();
        if left > 0 {
            let message =
                format!("this installation still has {left} containers; remove them first");
            return Err(Error::Conflict { message });
        }
        self.internet.tear_down().await
    }
}

pub(super) fn ignore_missing_container(error: Error) -> Result<()> {
    match error {
        Error::NoSuchContainer { .. } => Ok(()),
        error => Err(error),
    }
}

/// Converts an entry of the engine's list. Returns `None` for a container that
/// is not named after its sandbox: an image can have the labels of Elevo, and
/// every container of this image inherits them.
fn listed(found: ContainerSummary) -> Option<Container> {
    let sandbox = found.labels?.remove(LABEL_SANDBOX)?;
    let named = |name: &String| name.strip_prefix('/') == Some(&sandbox);
    let state = match found.state? {
        ContainerSummaryStateEnum::CREATED | ContainerSummaryStateEnum::EMPTY => {
            ContainerState::Created
        }
        ContainerSummaryStateEnum::RUNNING
        | ContainerSummaryStateEnum::RESTARTING
        | ContainerSummaryStateEnum::STOPPING => ContainerState::Running,
        ContainerSummaryStateEnum::PAUSED => ContainerState::Frozen,
        ContainerSummaryStateEnum::EXITED | ContainerSummaryStateEnum::DEAD => {
            ContainerState::Exited
        }
        ContainerSummaryStateEnum::REMOVING => ContainerState::Removing,
    };
    found.names?.iter().any(named).then_some(Container {
        sandbox,
        id: ContainerId(found.id?),
        state,
    })
}

pub(super) fn state_of(found: &ContainerInspectResponse) -> ContainerStatus {
    let told = found.state.clone().unwrap_or_default();
    let state = match told.status {
        None | Some(ContainerStateStatusEnum::EMPTY | ContainerStateStatusEnum::CREATED) => {
            ContainerState::Created
        }
        Some(
            ContainerStateStatusEnum::RUNNING
            | ContainerStateStatusEnum::RESTARTING
            | ContainerStateStatusEnum::STOPPING,
        ) => ContainerState::Running,
        Some(ContainerStateStatusEnum::PAUSED) => ContainerState::Frozen,
        Some(ContainerStateStatusEnum::EXITED | ContainerStateStatusEnum::DEAD) => {
            ContainerState::Exited
        }
        Some(ContainerStateStatusEnum::REMOVING) => ContainerState::Removing,
    };
    let ended = matches!(state, ContainerState::Exited);
    ContainerStatus {
        state,
        pid: told
            .pid
            .and_then(|pid| u32::try_from(pid).ok())
            .filter(|pid| *pid > 0),
        exit_code: told.exit_code.filter(|_| ended),
        oom_killed: told.oom_killed.unwrap_or_default(),
        error: told.error.filter(|error| !error.is_empty()),
    }
}
