//! A Docker runtime that does not need the engine at startup.

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::docker::{DockerRuntime, DockerSettings};
use crate::error::{Error, Result};
use crate::runtime::{
    Container, ContainerId, ContainerStatus, Image, Logs, LogsQuery, PullProgress, RuntimeInfo,
    SandboxRuntime, Stats,
};
use crate::spec::ContainerSpec;

/// A [`DockerRuntime`] that connects as soon as the engine responds. Until the
/// engine responds for the first time, each call tries once to connect and
/// fails with [`Unreachable`](Error::Unreachable).
#[derive(Debug)]
pub struct Reconnecting {
    settings: DockerSettings,
    connected: RwLock<Option<Arc<DockerRuntime>>>,
    connecting: Mutex<()>,
}

impl Reconnecting {
    /// Tries to connect. Invalid settings are an error; an engine that does not
    /// respond is not.
    pub async fn new(settings: DockerSettings) -> Result<Self> {
        let runtime = Self {
            settings,
            connected: RwLock::new(None),
            connecting: Mutex::new(()),
        };
        match runtime.connected().await {
            Err(error @ Error::Refused { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!(
                    host = runtime.settings.host,
                    cause = %error,
                    "the container engine does not respond; sandboxes cannot start until it does"
                );
            }
            Ok(_) => {}
        }
        Ok(runtime)
    }

    async fn connected(&self) -> Result<Arc<DockerRuntime>> {
        if let Some(runtime) = self.known() {
            return Ok(runtime);
        }
        // Only one caller connects at a time. Other callers fail at once,
        // because they must not pile up behind an engine that hangs.
        let Ok(_attempt) = self.connecting.try_lock() else {
            let source = "another call is connecting to the engine";
            return Err(Error::Unreachable {
                host: self.settings.host.clone(),
                source: source.into(),
            });
        };
        let runtime = Arc::new(DockerRuntime::connect(self.settings.clone()).await?);
        *self.connected.write() = Some(Arc::clone(&runtime));
        Ok(runtime)
    }

    fn known(&self) -> Option<Arc<DockerRuntime>> {
        self.connected.read().clone()
    }
}

#[async_trait]
impl SandboxRuntime for Reconnecting {
    async fn check(&self) -> Result<RuntimeInfo> {
        self.connected().await?.check().await
    }

    async fn sees(&self, path: &Path) -> Result<Option<bool>> {
        self.connected().await?.sees(path).await
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId> {
        self.connected().await?.create(spec).await
    }

    async fn start(&self, id: &ContainerId) -> Result<()> {
        self.connected().await?.start(id).await
    }

    async fn kill(&self, id: &ContainerId) -> Result<()> {
        self.connected().await?.kill(id).await
    }

    async fn remove(&self, id: &ContainerId) -> Result<()> {
        self.connected().await?.remove(id).await
    }

    async fn status(&self, id: &ContainerId) -> Result<Option<ContainerStatus>> {
        self.connected().await?.status(id).await
    }

    async fn list(&self) -> Result<Vec<Container>> {
        self.connected().await?.list().await
    }

    async fn logs(&self, id: &ContainerId, query: &LogsQuery) -> Result<Logs> {
        self.connected().await?.logs(id, query).await
    }

    async fn stats(&self, id: &ContainerId) -> Result<Stats> {
        self.connected().await?.stats(id).await
    }

    async fn freeze(&self, id: &ContainerId) -> Result<()> {
        self.connected().await?.freeze(id).await
    }

    async fn thaw(&self, id: &ContainerId) -> Result<()> {
        self.connected().await?.thaw(id).await
    }

    async fn image(&self, name: &str) -> Result<Option<Image>> {
        self.connected().await?.image(name).await
    }

    async fn pull(&self, name: &str) -> BoxStream<'static, Result<PullProgress>> {
        match self.connected().await {
            Ok(runtime) => runtime.pull(name).await,
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn load(&self, archive: BoxStream<'static, io::Result<Bytes>>) -> Result<Vec<String>> {
        self.connected().await?.load(archive).await
    }

    async fn remove_image(&self, name: &str) -> Result<()> {
        self.connected().await?.remove_image(name).await
    }

    async fn tear_down(&self) -> Result<()> {
        self.connected().await?.tear_down().await
    }
}
