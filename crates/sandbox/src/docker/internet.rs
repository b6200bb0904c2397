use std::collections::HashMap;
use std::net::IpAddr;

use bollard::Docker;
use bollard::models::{NetworkCreateRequest, NetworkInspect};
use tokio::sync::Mutex;

use super::failure::{self, Subject};
use super::{DockerSettings, LABEL_SERVER, firewall};
use crate::error::{Error, Result};
use crate::host_limits::HostLimits;

/// Option of a bridge: whether containers on it can reach each other.
const ICC: &str = "com.docker.network.bridge.enable_icc";
/// The files with the machine's resolvers. If the first file names a service on
/// the machine itself, the second file has the real resolvers. The engine reads
/// the files in the same way.
const RESOLVERS: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// The network of an installation: a bridge, and rules for its packets.
#[derive(Debug)]
pub(super) struct Internet {
    docker: Docker,
    settings: DockerSettings,
    resolvers: Option<Vec<IpAddr>>,
    /// Serializes changes: otherwise two calls could create the network twice.
    /// Holds the limits that the kernel is known to support.
    changing: Mutex<HostLimits>,
}

impl Internet {
    pub(super) fn new(docker: Docker, settings: DockerSettings) -> Self {
        Self {
            docker,
            resolvers: None,
            changing: Mutex::new(settings.limits),
            settings,
        }
    }

    pub(super) fn set_resolvers(&mut self, resolvers: Vec<IpAddr>) {
        self.resolvers = Some(resolvers);
    }

    /// Returns the resolvers to set for a container; empty for the engine's
    /// choice.
    pub(super) fn dns(&self) -> &[IpAddr] {
        self.resolvers.as_deref().unwrap_or_default()
    }

    /// Creates the network and its rules, unless they exist. Must be called
    /// before each start of a container on the network, because other programs
    /// may have deleted rules.
    pub(super) async fn ensure(&self) -> Result<()> {
        let mut limits = self.changing.lock().await;
        let id = match self.find().await? {
            Some((id, _)) => id,
            None => {
                // The network is not created if its rules could not be set.
                firewall::probe().await?;
                self.make().await?
            }
        };
        self.guard(&id, &mut limits).await
    }

    /// Restores deleted rules if the network exists; otherwise checks whether
    /// the network could be created.
    pub(super) async fn repair(&self) -> Result<()> {
        let mut limits = self.changing.lock().await;
        firewall::probe().await?;
        match self.find().await? {
            Some((id, _)) => self.guard(&id, &mut limits).await,
            None => Ok(()),
        }
    }

    pub(super) async fn tear_down(&self) -> Result<()> {
        let _changing = self.changing.lock().await;
        // The network is deleted first, because it must never exist without its
        // rules.
        if let Some((id, is_ours)) = self.find().await?
            && is_ours
        {
            let removed = self.docker.remove_network(&id).await;
            removed.map_err(|error| match self.error(error) {
                Error::Failed { message } if message.contains("active endpoints") => {
                    Error::Conflict { message }
                }
                error => error,
            })?;
        }
        firewall::clear(&self.settings.server).await
    }

    /// Returns the resolvers that a container may reach.
    pub(super) async fn resolvers(&self) -> Vec<IpAddr> {
        match &self.resolvers {
            Some(resolvers) => resolvers.clone(),
            None => machine_resolvers().await,
        }
    }

    async fn guard(&self, id: &str, limits: &mut HostLimits) -> Result<()> {
        let resolvers = self.resolvers().await;
        firewall::ensure(&self.settings.server, id, &resolvers, limits).await
    }

    /// Returns the id of the network, if it exists and is suitable for
    /// sandboxes, and whether this installation created it.
    async fn find(&self) -> Result<Option<(String, bool)>> {
        let found = self.docker.inspect_network(&self.settings.network, None);
        match found.await {
            Ok(network) => self.admit(network).map(Some),
            Err(bollard::errors::Error::DockerResponseServerError {
                status_code: 404, ..
            }) => Ok(None),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Accepts a network that an operator created as well, if containers on it
    /// cannot reach each other and the rules see all packets.
    fn admit(&self, network: NetworkInspect) -> Result<(String, bool)> {
        let labels = network.labels.unwrap_or_default();
        let options = network.options.unwrap_or_default();
        let owner = labels.get(LABEL_SERVER);
        let fault = if owner.is_some_and(|owner| *owner != self.settings.server) {
            Some("it belongs to another installation")
        } else if network.driver.as_deref() != Some("bridge") {
            Some("it is not a bridge")
        } else if network.enable_ipv6 == Some(true) {
            Some("it has IPv6")
        } else if options.get(ICC).map(String::as_str) != Some("false") {
            Some("containers on it can reach each other")
        } else {
            None
        };
        match (network.id, fault) {
            (Some(id), None) => Ok((id, owner.is_some())),
            (_, fault) => Err(Error::refused(
                "network",
                format!(
                    "the network `{}` cannot be used: {}; remove it, configure another, or create \
                     one with `docker network create -o {ICC}=false NAME`",
                    self.settings.network,
                    fault.unwrap_or("it has no id"),
                ),
            )),
        }
    }

    async fn make(&self) -> Result<String> {
        let request = NetworkCreateRequest {
            name: self.settings.network.clone(),
            driver: Some("bridge".to_owned()),
            internal: Some(false),
            attachable: Some(false),
            enable_ipv6: Some(false),
            options: Some(HashMap::from([(ICC.to_owned(), "false".to_owned())])),
            labels: Some(HashMap::from([(
                LABEL_SERVER.to_owned(),
                self.settings.server.clone(),
            )])),
            ..NetworkCreateRequest::default()
        };
        let made = self.docker.create_network(request).await;
        Ok(made.map_err(|error| self.error(error))?.id)
    }

    fn error(&self, error: bollard::errors::Error) -> Error {
        failure::translate(&self.settings.host, Subject::Network, error)
    }
}

async fn machine_resolvers() -> Vec<IpAddr> {
    let reading = || {
        let texts = RESOLVERS
            .iter()
            .filter_map(|path| std::fs::read_to_string(path).ok());
        texts.flat_map(|text| resolvers_in(&text)).collect()
    };
    tokio::task::spawn_blocking(reading)
        .await
        .unwrap_or_default()
}

/// Returns the resolvers that a container can reach over the network. The
/// engine itself queries a resolver on the loopback interface of this machine.
fn resolvers_in(text: &str) -> Vec<IpAddr> {
    let named = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next()? == "nameserver")
            .then(|| words.next())??
            .parse()
            .ok()
    };
    let addresses = text.lines().filter_map(named);
    addresses
        .filter(|address: &IpAddr| !address.is_loopback())
        .take(8)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_resolvers_except_those_on_loopback() {
        let text = "# nameserver 1.1.1.1\nnameserver 127.0.0.53\nsearch a b\n\
                    nameserver 10.0.0.2 # ours\nnameserver\nnameserver fd00::1\noptions edns0\n";
        let expected: Vec<IpAddr> = vec![[10, 0, 0, 2].into(), "fd00::1".parse().unwrap()];
        assert_eq!(resolvers_in(text), expected);
    }
}
