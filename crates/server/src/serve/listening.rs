//! The listeners of a server: for workspace agents, for clients, and for metrics.

use crate::app::App;
use crate::app::stopping::Phase;
use crate::http::{self};
use crate::platform::descriptors;
use crate::platform::listen::{Certificate, Door};
use crate::serve::Addresses;
use anyhow::Context;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Listens for workspace agents on a socket in the data directory and, if
/// configured, on a TCP address.
pub(super) async fn listen_for_agents(
    app: &Arc<App>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let socket = app.config.data_dir.join("run/agents/agent.sock");
    let (links, stopping) = (app.links.clone(), app.clone());
    tasks.spawn(async move {
        let stop = async move { stopping.stopping.entered(Phase::Ended).await };
        links
            .serve_unix(&socket, stop)
            .await
            .context("cannot listen for workspace agents")
    });
    if let Some(address) = app.config.grpc {
        let listener = bind(address).await?;
        let (links, stopping) = (app.links.clone(), app.clone());
        tasks.spawn(async move {
            let stop = async move { stopping.stopping.entered(Phase::Ended).await };
            links
                .serve_tcp(listener, stop)
                .await
                .context("cannot listen for workspace agents")
        });
    }
    Ok(())
}

/// Listens for clients of the API, and for health checks and metrics. Returns the
/// addresses.
pub(super) async fn listen_for_clients(
    app: &Arc<App>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<Addresses> {
    let api = bind(app.config.api).await?;
    let metrics = bind(app.config.metrics).await?;
    let addresses = Addresses {
        api: api.local_addr()?,
        metrics: metrics.local_addr()?,
    };
    let shared = http::shared(app.clone());
    let tls = match &app.config.tls {
        Some(tls) => Some(Arc::new(Certificate::read(tls)?)),
        None => None,
    };
    if let Some(tls) = tls.clone() {
        let stopping = app.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stopping.stopping.entered(Phase::Ended) => {}
                () = refresh(&tls) => {}
            }
            Ok(())
        });
    }
    let most = descriptors::for_connections(descriptors::raise()?, app.config.limits.connections);
    let trusted: Arc<[_]> = app.config.trusted_proxies.clone().into();
    let api = Door {
        trusted: trusted.clone(),
        listener: api,
        tls,
        most,
        router: http::router(shared.clone()),
    };
    let internal = Door {
        trusted,
        listener: metrics,
        tls: None,
        most: 64,
        router: http::internal_router(shared),
    };
    for door in [api, internal] {
        let (stop, stopping) = (CancellationToken::new(), app.clone());
        tasks.spawn(async move {
            let ended = async { stopping.stopping.entered(Phase::Ended).await };
            let cancelling = async {
                ended.await;
                stop.cancel();
            };
            tokio::join!(door.serve(stop.clone()), cancelling);
            Ok(())
        });
    }
    Ok(addresses)
}

/// Checks at intervals whether the files of the certificate have changed, and
/// reads them.
pub(super) async fn refresh(certificate: &Arc<Certificate>) {
    let mut last = String::new();
    loop {
        tokio::time::sleep(CERTIFICATE).await;
        let looking = certificate.clone();
        match tokio::task::spawn_blocking(move || looking.refresh()).await {
            Ok(Ok(false)) | Err(_) => {}
            Ok(Ok(true)) => {
                tracing::info!("the certificate has changed; new connections use the new one");
                last.clear();
            }
            Ok(Err(error)) => {
                let cause = format!("{error:#}");
                // The same problem is logged once, not at every check.
                if cause != last {
                    tracing::warn!(
                        cause,
                        "cannot read the changed certificate; new connections use the previous one"
                    );
                }
                last = cause;
            }
        }
    }
}

pub(super) async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| {
        format!("cannot listen on {address}; check that no other process uses this address")
    })
}

/// Interval at which the files of the certificate are checked.
pub(super) const CERTIFICATE: Duration = Duration::from_secs(5);
