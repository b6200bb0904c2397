//! The simulated engine at a Unix socket: one connection for each call, with a
//! request and a response in JSON.

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::Timestamp;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::{HOST, SimEngine, SimRuntime};
use crate::error::{Error, Result};
use crate::runtime::{
    Container, ContainerId, ContainerStatus, Image, Logs, LogsQuery, PullProgress, RuntimeInfo,
    SandboxRuntime, Stats,
};
use crate::spec::ContainerSpec;

/// A runtime on a [`SimEngine`] in another process.
#[derive(Debug)]
pub struct RemoteRuntime {
    socket: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Check,
    Create(Box<ContainerSpec>),
    Start(ContainerId),
    Kill(ContainerId),
    Remove(ContainerId),
    Status(ContainerId),
    List,
    Logs(ContainerId, WireQuery),
    Stats(ContainerId),
    Freeze(ContainerId),
    Thaw(ContainerId),
    Image(String),
    Pull(String),
    Load(Vec<u8>),
    RemoveImage(String),
    TearDown,
}

/// A [`LogsQuery`] with its times in whole seconds, which is how it compares
/// them.
#[derive(Debug, Serialize, Deserialize)]
struct WireQuery {
    tail: Option<u32>,
    since: Option<i64>,
    until: Option<i64>,
    limit: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireLogs {
    bytes: Vec<u8>,
    truncated: bool,
}

/// An [`Error`] without its source.
#[derive(Debug, Serialize, Deserialize)]
enum WireError {
    Unreachable { host: String, source: String },
    NoSuchImage { name: String },
    ImageDenied { name: String },
    NoSuchContainer { id: String },
    NoSuchRuntime { name: String },
    Conflict { message: String },
    NotRunnable { image: String, message: String },
    Refused { what: String, why: String },
    Failed { message: String },
}

type WireResult<T> = std::result::Result<T, WireError>;

pub(super) fn listen(engine: &SimEngine, server: &str, socket: &Path) -> io::Result<()> {
    let listener = StdListener::bind(socket)?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let (engine, server) = (engine.weak(), server.to_owned());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Some(engine) = engine() else { return };
            tokio::spawn(serve(engine.runtime(&server), stream));
        }
    });
    Ok(())
}

async fn serve(runtime: SimRuntime, mut stream: UnixStream) {
    let mut bytes = Vec::new();
    let request = match stream.read_to_end(&mut bytes).await {
        Ok(_) => serde_json::from_slice(&bytes),
        Err(error) => Err(serde_json::Error::io(error)),
    };
    let response = match request {
        Ok(request) => respond(&runtime, request).await,
        Err(error) => encode::<()>(Err(Error::failed(error.to_string()))),
    };
    // The caller may have been killed; its call has taken effect.
    let _ = stream.write_all(&response).await;
}

async fn respond(runtime: &SimRuntime, request: Request) -> Vec<u8> {
    match request {
        Request::Check => encode(runtime.check().await),
        Request::Create(spec) => encode(runtime.create(&spec).await),
        Request::Start(id) => encode(runtime.start(&id).await),
        Request::Kill(id) => encode(runtime.kill(&id).await),
        Request::Remove(id) => encode(runtime.remove(&id).await),
        Request::Status(id) => encode(runtime.status(&id).await),
        Request::List => encode(runtime.list().await),
        Request::Logs(id, query) => {
            let logs = runtime.logs(&id, &query.into()).await;
            encode(logs.map(|logs| WireLogs {
                bytes: logs.bytes.to_vec(),
                truncated: logs.truncated,
            }))
        }
        Request::Stats(id) => encode(runtime.stats(&id).await),
        Request::Freeze(id) => encode(runtime.freeze(&id).await),
        Request::Thaw(id) => encode(runtime.thaw(&id).await),
        Request::Image(name) => encode(runtime.image(&name).await),
        Request::Pull(name) => {
            let steps = runtime.pull(&name).await;
            let steps: Vec<WireResult<PullProgress>> = steps
                .map(|step| step.map_err(WireError::from))
                .collect()
                .await;
            encode(Ok(steps))
        }
        Request::Load(archive) => {
            let archive = stream::iter([Ok(archive.into())]).boxed();
            encode(runtime.load(archive).await)
        }
        Request::RemoveImage(name) => encode(runtime.remove_image(&name).await),
        Request::TearDown => encode(runtime.tear_down().await),
    }
}

fn encode<T: Serialize>(result: Result<T>) -> Vec<u8> {
    let result = result.map_err(WireError::from);
    serde_json::to_vec(&result).unwrap_or_default()
}

impl RemoteRuntime {
    /// Calls the engine that listens at a socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
        }
    }

    async fn call<T: DeserializeOwned>(&self, request: Request) -> Result<T> {
        let exchanged = async {
            let mut stream = UnixStream::connect(&self.socket).await?;
            stream.write_all(&serde_json::to_vec(&request)?).await?;
            stream.shutdown().await?;
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await?;
            Ok::<WireResult<T>, io::Error>(serde_json::from_slice(&bytes)?)
        };
        match exchanged.await {
            Ok(result) => result.map_err(WireError::into_error),
            Err(source) => Err(Error::Unreachable {
                host: HOST.to_owned(),
                source: source.into(),
            }),
        }
    }
}

#[async_trait]
impl SandboxRuntime for RemoteRuntime {
    async fn check(&self) -> Result<RuntimeInfo> {
        self.call(Request::Check).await
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId> {
        self.call(Request::Create(Box::new(spec.clone()))).await
    }

    async fn start(&self, id: &ContainerId) -> Result<()> {
        self.call(Request::Start(id.clone())).await
    }

    async fn kill(&self, id: &ContainerId) -> Result<()> {
        self.call(Request::Kill(id.clone())).await
    }

    async fn remove(&self, id: &ContainerId) -> Result<()> {
        self.call(Request::Remove(id.clone())).await
    }

    async fn status(&self, id: &ContainerId) -> Result<Option<ContainerStatus>> {
        self.call(Request::Status(id.clone())).await
    }

    async fn list(&self) -> Result<Vec<Container>> {
        self.call(Request::List).await
    }

    async fn logs(&self, id: &ContainerId, query: &LogsQuery) -> Result<Logs> {
        let query = WireQuery {
            tail: query.tail,
            since: query.since.map(Timestamp::seconds),
            until: query.until.map(Timestamp::seconds),
            limit: query.limit,
        };
        let logs: WireLogs = self.call(Request::Logs(id.clone(), query)).await?;
        Ok(Logs {
            bytes: logs.bytes.into(),
            truncated: logs.truncated,
        })
    }

    async fn stats(&self, id: &ContainerId) -> Result<Stats> {
        self.call(Request::Stats(id.clone())).await
    }

    async fn freeze(&self, id: &ContainerId) -> Result<()> {
        self.call(Request::Freeze(id.clone())).await
    }

    async fn thaw(&self, id: &ContainerId) -> Result<()> {
        self.call(Request::Thaw(id.clone())).await
    }

    async fn image(&self, name: &str) -> Result<Option<Image>> {
        self.call(Request::Image(name.to_owned())).await
    }

    async fn pull(&self, name: &str) -> BoxStream<'static, Result<PullProgress>> {
        let steps: Result<Vec<WireResult<PullProgress>>> =
            self.call(Request::Pull(name.to_owned())).await;
        match steps {
            Ok(steps) => {
                let steps = steps.into_iter();
                stream::iter(steps.map(|step| step.map_err(WireError::into_error))).boxed()
            }
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn load(&self, archive: BoxStream<'static, io::Result<Bytes>>) -> Result<Vec<String>> {
        let pieces: Vec<Bytes> = archive
            .try_collect()
            .await
            .map_err(|error| Error::refused("archive", error.to_string()))?;
        self.call(Request::Load(pieces.concat())).await
    }

    async fn remove_image(&self, name: &str) -> Result<()> {
        self.call(Request::RemoveImage(name.to_owned())).await
    }

    async fn tear_down(&self) -> Result<()> {
        self.call(Request::TearDown).await
    }
}

impl From<WireQuery> for LogsQuery {
    fn from(query: WireQuery) -> Self {
        let time = |seconds: Option<i64>| seconds.and_then(|seconds| Timestamp::new(seconds, 0));
        Self {
            tail: query.tail,
            since: time(query.since),
            until: time(query.until),
            limit: query.limit,
        }
    }
}

impl From<Error> for WireError {
    fn from(error: Error) -> Self {
        match error {
            Error::Unreachable { host, source } => Self::Unreachable {
                host,
                source: source.to_string(),
            },
            Error::NoSuchImage { name } => Self::NoSuchImage { name },
            Error::ImageDenied { name } => Self::ImageDenied { name },
            Error::NoSuchContainer { id } => Self::NoSuchContainer { id },
            Error::NoSuchRuntime { name } => Self::NoSuchRuntime { name },
            Error::Conflict { message } => Self::Conflict { message },
            Error::NotRunnable { image, message } => Self::NotRunnable { image, message },
            Error::Refused { what, why } => Self::Refused {
                what: what.to_owned(),
                why,
            },
            Error::Failed { message } => Self::Failed { message },
        }
    }
}

impl WireError {
    fn into_error(self) -> Error {
        match self {
            Self::Unreachable { host, source } => Error::Unreachable {
                host,
                source: source.into(),
            },
            Self::NoSuchImage { name } => Error::NoSuchImage { name },
            Self::ImageDenied { name } => Error::ImageDenied { name },
            Self::NoSuchContainer { id } => Error::NoSuchContainer { id },
            Self::NoSuchRuntime { name } => Error::NoSuchRuntime { name },
            Self::Conflict { message } => Error::Conflict { message },
            Self::NotRunnable { image, message } => Error::NotRunnable { image, message },
            Self::Refused { what, why } => Error::Refused {
                // The leak is small: there are only a few names of fields, and
                // the process ends with its test.
                what: what.leak(),
                why,
            },
            Self::Failed { message } => Error::Failed { message },
        }
    }
}
