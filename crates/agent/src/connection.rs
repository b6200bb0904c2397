//! Connects to the server, and reconnects after every failure.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use anyhow::{Context, bail};
use elevo_agent_proto::v1::agent_service_client::AgentServiceClient;
use elevo_agent_proto::v1::server_message::Payload;
use elevo_agent_proto::v1::{self, ServerMessage};
use elevo_agent_proto::{
    AUTHORIZATION, BEARER, CONNECTION_WINDOW, MAX_MESSAGE, SANDBOX_ID, STREAM_WINDOW,
};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Interval, MissedTickBehavior};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};
use tower::service_fn;

use crate::handle::handle;
use crate::log;
use crate::outgoing::Outgoing;
use crate::settings::{Address, Settings};
use crate::state::Agent;
use crate::tunnel::Tunnels;
use crate::usage::Meter;

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Maximum time for the server to accept a connection.
const PATIENCE: Duration = Duration::from_secs(10);

const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(30);

/// Interval of pings on an idle connection, which detect that the server is
/// gone.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Connects to the server, and reconnects as long as the agent runs.
pub(crate) async fn keep_connected(
    agent: &Agent,
    settings: &Settings,
) -> anyhow::Result<Infallible> {
    let mut authorization: MetadataValue<Ascii> = format!("{BEARER}{}", settings.token)
        .parse()
        .context("SANDBOX_TOKEN has characters that are not valid in a token")?;
    authorization.set_sensitive(true);
    let id: MetadataValue<Ascii> = settings
        .sandbox
        .parse()
        .context("SANDBOX_ID has characters that are not valid in an id")?;
    let mut meter = Meter::new();
    let mut pause = SHORTEST_PAUSE;
    loop {
        let mut request = Request::new(());
        let metadata = request.metadata_mut();
        metadata.insert(AUTHORIZATION, authorization.clone());
        metadata.insert(SANDBOX_ID, id.clone());
        let mut accepted = false;
        let session = Session {
            agent,
            settings,
            meter: &mut meter,
            accepted: &mut accepted,
        };
        let Err(error) = session.run(request).await;
        agent.lock().disconnect();
        if accepted {
            pause = SHORTEST_PAUSE;
        }
        // Warn only once for each outage: a server may be down for long.
        match pause == SHORTEST_PAUSE {
            true => log::warn(format_args!("{error:#}; retrying")),
            false => log::debug(format_args!("{error:#}")),
        }
        tokio::time::sleep(jittered(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// One connection with the server.
struct Session<'a> {
    agent: &'a Agent,
    settings: &'a Settings,
    meter: &'a mut Meter,
    accepted: &'a mut bool,
}

impl Session<'_> {
    async fn run(mut self, request: Request<()>) -> anyhow::Result<Infallible> {
        let (mut inbound, mut tunnels) = tokio::time::timeout(PATIENCE, self.open(request))
            .await
            .context("the server does not respond")??;
        let mut heartbeat = heartbeat(DEFAULT_HEARTBEAT);
        loop {
            tokio::select! {
                message = inbound.message() => match message {
                    Ok(Some(message)) => {
                        self.receive(message, &mut tunnels, &mut heartbeat)?;
                    }
                    Ok(None) => bail!("the server closed the connection"),
                    Err(status) => bail!("the connection is lost: {}", status.message()),
                },
                _ = heartbeat.tick() => self.agent.beat(self.meter),
            }
        }
    }

    async fn open(
        &mut self,
        request: Request<()>,
    ) -> anyhow::Result<(Streaming<ServerMessage>, Tunnels)> {
        let channel = dial(&self.settings.server)
            .await
            .context("cannot reach the server")?;
        let mut client = AgentServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        let outgoing = register(self.agent, &self.settings.sandbox);
        let (metadata, extensions, ()) = request.into_parts();
        let sandbox = metadata.get(SANDBOX_ID).context("no sandbox")?.clone();
        let tunnels = Tunnels::new(client.clone(), sandbox);
        let request = Request::from_parts(metadata, extensions, outgoing);
        match client.connect(request).await {
            Ok(response) => Ok((response.into_inner(), tunnels)),
            Err(status) => bail!("the server rejected this agent: {}", status.message()),
        }
    }

    fn receive(
        &mut self,
        message: ServerMessage,
        tunnels: &mut Tunnels,
        beat: &mut Interval,
    ) -> anyhow::Result<()> {
        if let Some(Payload::RegisterResponse(response)) = &message.payload {
            if !response.success {
                bail!("the server rejected this agent: {}", response.message);
            }
            *self.accepted = true;
            log::info(format_args!("connected"));
            if let Some(interval) = response.config.as_ref().and_then(interval) {
                *beat = heartbeat(interval);
            }
        }
        handle(self.agent, tunnels, message);
        Ok(())
    }
}

/// Returns the messages of a new connection. The first message registers the
/// agent and lists all its processes.
fn register(agent: &Agent, sandbox: &str) -> Outgoing {
    let mut state = agent.lock();
    state.disconnect();
    let processes = state.processes.iter();
    let processes = processes
        .map(|(id, process)| process.describe(id))
        .collect();
    let capabilities = [("pty".to_owned(), "true".to_owned())];
    let connection = state.outbox.connect(v1::RegisterRequest {
        sandbox_id: sandbox.to_owned(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        capabilities: capabilities.into(),
        processes,
    });
    Outgoing {
        agent: agent.clone(),
        sandbox: sandbox.to_owned(),
        connection,
    }
}

async fn dial(address: &Address) -> anyhow::Result<Channel> {
    // This name appears only in headers; the connector below uses `address`.
    let endpoint = Endpoint::from_static("http://agent.invalid")
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(PATIENCE);
    let channel = match address.clone() {
        Address::Unix(path) => {
            let dial = service_fn(move |_| {
                let path = path.clone();
                async move { UnixStream::connect(path).await.map(TokioIo::new) }
            });
            endpoint.connect_with_connector(dial).await
        }
        Address::Ip(address) => {
            let dial = service_fn(move |_| async move { tcp(TcpStream::connect(address)).await });
            endpoint.connect_with_connector(dial).await
        }
        Address::Named(name) => {
            let dial = service_fn(move |_| {
                let name = name.clone();
                async move { tcp(TcpStream::connect(name)).await }
            });
            endpoint.connect_with_connector(dial).await
        }
    };
    Ok(channel?)
}

async fn tcp(
    connecting: impl Future<Output = std::io::Result<TcpStream>>,
) -> std::io::Result<TokioIo<TcpStream>> {
    let stream = connecting.await?;
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(stream))
}

fn interval(config: &v1::ServerConfig) -> Option<Duration> {
    let seconds = u64::try_from(config.heartbeat_interval_seconds).unwrap_or(0);
    let interval = match config.heartbeat_interval_ms {
        0 => Duration::from_secs(seconds),
        milliseconds => Duration::from_millis(milliseconds.into()),
    };
    (!interval.is_zero()).then_some(interval)
}

fn heartbeat(interval: Duration) -> Interval {
    let mut heartbeat = tokio::time::interval(interval);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

/// Returns a pause between half and all of `pause`, so that the agents do not
/// all reconnect to a restarted server at once.
fn jittered(pause: Duration) -> Duration {
    // Each `RandomState` has new keys from the system's random source.
    let random = RandomState::new().hash_one(0) as u32;
    pause / 2 + (pause / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}
