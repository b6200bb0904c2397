//! Ports of sandboxes: the rights to use them, links to them, and tunnels to
//! the programs that listen on them.

pub(crate) mod bounds;
pub(crate) mod links;
pub(crate) mod port;

use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::{AgentLink, LinkError, TunnelStream};
use elevo_api as api;
use elevo_api::Scope;
use elevo_core::{ErrorCode, SandboxId};
use quick_cache::sync::Cache;
use tokio::sync::OnceCell;

use crate::app::access::principal::Principal;
use crate::app::access::secrets::Secrets;
use crate::app::ports::bounds::{Bounds, Permit};
use crate::app::ports::links::{Grant, Kind, Signer};
use crate::app::ports::port::Port;
use crate::app::resources::Resources;
use crate::app::sandboxes::Sandboxes;
use crate::failure::{Failure, Result};
use crate::platform::audit::{Audit, Entry};
use crate::platform::clock;

/// Default and maximum lifetime of a link, in seconds.
const LINK_LIFETIME: u32 = 3600;
const MAX_LINK_LIFETIME: u32 = 24 * 3600;

/// Maximum number of recent uses that are remembered, and the time after which
/// another use is recorded in the audit log.
const REMEMBERED: usize = 10_000;
const RECORDED_EVERY: Duration = Duration::from_secs(3600);

/// Checks the rights to use ports of sandboxes, and connects to them.
pub(crate) struct Ports {
    audit: Arc<Audit>,
    bounds: Arc<Bounds>,
    sandboxes: Arc<Sandboxes>,
    secrets: Arc<Secrets>,
    signer: OnceCell<Signer>,
    /// The last record of the use of a port, by key, sandbox and port.
    recorded: Cache<String, std::time::Instant>,
}

impl Ports {
    pub(crate) fn new(
        resources: &Resources,
        sandboxes: &Arc<Sandboxes>,
        secrets: &Arc<Secrets>,
    ) -> Self {
        let requests = resources.config.limits.port_requests;
        Self {
            audit: resources.audit.clone(),
            bounds: Arc::new(Bounds::new(requests as usize)),
            sandboxes: sandboxes.clone(),
            secrets: secrets.clone(),
            signer: OnceCell::new(),
            recorded: Cache::new(REMEMBERED),
        }
    }

    /// Creates the token of a link to a port. Returns it with the time when it
    /// expires.
    pub(crate) async fn create_link(
        &self,
        who: &Principal,
        sandbox: &SandboxId,
        port: Port,
        wish: &api::CreatePortLink,
    ) -> Result<(String, String)> {
        who.needs(Scope::Process)?;
        let seconds = wish.expires_in.unwrap_or(LINK_LIFETIME);
        if !(1..=MAX_LINK_LIFETIME).contains(&seconds) {
            let message = format!("`expiresIn` must be 1 to {MAX_LINK_LIFETIME} seconds");
            return Err(Failure::invalid(message));
        }
        self.sandboxes.visible(who, sandbox).await?;
        let expires = clock::after(clock::now(), Duration::from_secs(seconds.into()));
        let grant = Grant {
            tenant: who.tenant,
            key: who.key.clone(),
            expires: expires.seconds(),
        };
        let token = self.token(Kind::Link, &grant, sandbox, port).await?;
        Ok((token, clock::text(expires)))
    }

    /// Returns the token for a grant.
    pub(crate) async fn token(
        &self,
        kind: Kind,
        grant: &Grant,
        sandbox: &SandboxId,
        port: Port,
    ) -> Result<String> {
        Ok(self.signer().await?.token(kind, grant, sandbox, port))
    }

    /// Returns the grant of a token for this port. Fails if the token is forged,
    /// has expired, or is for another port.
    pub(crate) async fn grant(
        &self,
        kind: Kind,
        token: &str,
        sandbox: &SandboxId,
        port: Port,
    ) -> Result<Grant> {
        let grant = self.signer().await?.read(kind, token, sandbox, port);
        let valid = grant.filter(|grant| grant.expires > clock::now().seconds());
        valid.ok_or_else(|| {
            let message = "this link is not valid for the port, or has expired";
            Failure::new(ErrorCode::Unauthorized, message)
                .remediation("Create another link to the port.")
        })
    }

    async fn signer(&self) -> Result<&Signer> {
        let create = async || {
            let secret = self.secrets.port_link_secret().await?;
            Ok(Signer::new(secret))
        };
        self.signer.get_or_try_init(create).await
    }

    /// Admits a request to a port: checks the rights of the principal and the
    /// limits. Returns the connection to the workspace agent, and a permit that
    /// counts the request until it is dropped.
    pub(crate) async fn admit(
        &self,
        who: &Principal,
        sandbox: &SandboxId,
        port: Port,
    ) -> Result<(AgentLink, Permit)> {
        who.needs(Scope::Process)?;
        let link = self.sandboxes.agent_of(who, sandbox).await?;
        let permit = self.bounds.take(who.tenant, sandbox)?;
        self.record_first_use(who, sandbox, port).await?;
        Ok((link, permit))
    }

    /// Checks that a principal may use ports of a sandbox.
    pub(crate) async fn check(&self, who: &Principal, sandbox: &SandboxId) -> Result<()> {
        who.needs(Scope::Process)?;
        self.sandboxes.visible(who, sandbox).await.map(drop)
    }

    /// Connects to the program that listens on a port.
    pub(crate) async fn connect(&self, link: &AgentLink, port: Port) -> Result<TunnelStream> {
        let opened = link.open_port(port.number()).await;
        opened.map_err(|error| match error {
            LinkError::NotOpen => not_open(port),
            LinkError::TooMany { limit, .. } => {
                let message = format!("the sandbox has reached its limit of {limit} connections");
                Failure::new(ErrorCode::RateLimited, message).retry_after(1)
            }
            error => error.into(),
        })
    }

    /// Records the first use of a port by a key, and again after an hour: a page
    /// may load hundreds of files.
    async fn record_first_use(&self, who: &Principal, id: &SandboxId, port: Port) -> Result<()> {
        let name = format!("{} {id} {port}", who.key);
        let known = self.recorded.get(&name);
        if known.is_some_and(|since| since.elapsed() < RECORDED_EVERY) {
            return Ok(());
        }
        self.record_opening(who, id, port).await?;
        self.recorded.insert(name, clock::instant());
        Ok(())
    }

    /// Records in the audit log that a principal uses a port.
    pub(crate) async fn record_opening(
        &self,
        who: &Principal,
        id: &SandboxId,
        port: Port,
    ) -> Result<()> {
        self.audit.can_record(false)?;
        let entry = Entry {
            event: "port.opened",
            about: vec![
                ("sandbox_id", id.as_str().into()),
                ("port", port.number().into()),
            ],
            who: Some(who.into()),
            request_id: crate::platform::audit::request_id(),
            ..Entry::default()
        };
        self.audit.tell(entry).await;
        Ok(())
    }
}

/// Returns the failure of a request to a port that no program listens on.
fn not_open(port: Port) -> Failure {
    let message = format!("no program in the sandbox listens on port {port}");
    Failure::new(ErrorCode::PortNotOpen, message).about("port", port.number())
}

/// Returns the failure of a request whose program did not respond as it must.
/// `why` completes the sentence "the program …".
pub(crate) fn failed(port: Port, why: &str) -> Failure {
    let message = format!("the program that listens on port {port} {why}");
    Failure::new(ErrorCode::PortFailed, message).about("port", port.number())
}
