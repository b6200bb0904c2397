//! API keys and agents of a tenant: creates, lists and revokes them.

use std::sync::Arc;
use std::time::Duration;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::secret::ApiKeySecret;
use elevo_catalog::{Agent, ApiKey, KeyLimits, Position};
use elevo_core::{AgentId, ErrorCode, KeyId, TenantId};
use tokio::sync::watch;

use crate::app::access::names::{Names, check_name};
use crate::app::access::principal::Principal;
use crate::app::access::tenants::OF_THE_SETTINGS;
use crate::app::missing::{no_agent, no_key};
use crate::app::pages::PageQuery;
use crate::app::requests::once::Once;
use crate::app::resources::Resources;
use crate::app::sandboxes::spec;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// Returns the hash under which the catalog stores a secret. A secret that the
/// server did not generate, such as `API_KEY`, is hashed in a separate domain.
pub(crate) fn hash_of(secret: &str) -> [u8; 32] {
    match secret.parse::<ApiKeySecret>() {
        Ok(secret) => secret.hash(),
        Err(_) => blake3::derive_key("elevo server 2026-11-15 given API key", secret.as_bytes()),
    }
}

/// Manages the API keys and the agents of tenants.
pub(crate) struct Keys {
    pub(super) catalog: Arc<dyn Catalog>,
    config: Arc<Config>,
    names: Arc<Names>,
    /// Number of revocations since the server started. Each change makes open
    /// streams check their keys.
    revocations: watch::Sender<u64>,
}

impl Keys {
    pub(crate) fn new(resources: &Resources) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            config: resources.config.clone(),
            names: resources.names.clone(),
            revocations: watch::Sender::new(0),
        }
    }

    /// Returns a receiver that is notified after each revocation of a key or
    /// change of a tenant.
    pub(crate) fn revocations(&self) -> watch::Receiver<u64> {
        self.revocations.subscribe()
    }

    /// Makes all open streams check whether their keys are still valid.
    pub(crate) fn note_revocation(&self) {
        self.revocations.send_modify(|count| *count += 1);
    }

    pub(crate) async fn create(
        &self,
        who: &Principal,
        wish: api::CreateKey,
        once: &Once,
    ) -> Result<api::NewKey> {
        who.needs(Scope::Keys)?;
        check_name(&wish.name)?;
        if wish.name == OF_THE_SETTINGS {
            let message = format!(
                "`{OF_THE_SETTINGS}` is reserved for the key of the server's settings; choose \
                 another name"
            );
            return Err(Failure::new(ErrorCode::NameTaken, message));
        }
        let scopes = wish.scopes.unwrap_or_else(|| Scope::ORDINARY.to_vec());
        // A key must not grant scopes that it does not have.
        for scope in &scopes {
            who.needs(*scope)?;
        }
        let agent = match &wish.agent {
            Some(text) => match self.names.agent(who, text).await {
                Err(_) if who.agent.is_some() => return Err(not_own_agent()),
                found => Some(found?.id),
            },
            None => None,
        };
        if who.agent.is_some() && agent != who.agent {
            return Err(not_own_agent());
        }
        let default = || self.config.limits.key.clone();
        let limits = wish.limits.map_or_else(default, limits_in);
        let limits = within(limits, &who.limits)?;
        let expires = wish.expires_in_seconds;
        let now = clock::now();
        let secret = ApiKeySecret::from_random(clock::random());
        let key = ApiKey {
            id: self.id_for_key(who, once).await?,
            tenant: who.tenant,
            agent,
            name: wish.name,
            hash: secret.hash(),
            scopes: scopes.iter().map(|scope| scope.name().into()).collect(),
            limits,
            created: now,
            expires: expires.map(|s| clock::after(now, Duration::from_secs(s.into()))),
            revoked: None,
        };
        self.catalog.add_key(&key).await?;
        Ok(api::NewKey {
            key: key_out(key),
            secret: Some(secret.reveal()),
        })
    }

    /// Returns the id of a new key. In a retry, revokes the key of the earlier
    /// attempt: its secret was never returned and is not stored.
    async fn id_for_key(&self, who: &Principal, once: &Once) -> Result<KeyId> {
        if !once.is_again() {
            return Ok(once.id());
        }
        // Each retry records the id of its new key. Without such a record, the
        // earlier attempt was the first one, whose id is derived from the
        // request.
        let before: KeyId = once.noted().unwrap_or_else(|| once.id());
        let now = clock::now();
        self.catalog.revoke_key(who.tenant, &before, now).await?;
        let id: KeyId = clock::id();
        once.note(&id).await?;
        Ok(id)
    }

    pub(crate) async fn list(&self, who: &Principal, page: PageQuery) -> Result<api::KeyPage> {
        who.needs(Scope::Keys)?;
        let keys = self.catalog.keys(who.tenant).await?.into_iter();
        let visible = keys.filter(|key| who.agent.is_none() || key.agent == who.agent);
        let position = |key: &ApiKey| Position {
            created: key.created,
            id: key.id.to_string(),
        };
        let (keys, next) = page.cut_by_position(visible, position)?;
        let items = keys.into_iter().map(key_out).collect();
        Ok(api::KeyPage { items, next })
    }

    pub(crate) async fn revoke(&self, who: &Principal, id: &KeyId) -> Result<()> {
        who.needs(Scope::Keys)?;
        let found = self.catalog.key(who.tenant, id).await?;
        let found = found.filter(|key| who.agent.is_none() || key.agent == who.agent);
        found.ok_or_else(no_key)?;
        self.catalog
            .revoke_key(who.tenant, id, clock::now())
            .await?;
        self.note_revocation();
        Ok(())
    }

    pub(crate) async fn create_agent(
        &self,
        who: &Principal,
        wish: api::CreateAgent,
        once: &Once,
    ) -> Result<api::Agent> {
        who.needs(Scope::Keys)?;
        check_name(&wish.name)?;
        if who.agent.is_some() {
            let message = "a key that is bound to an agent cannot add agents";
            return Err(Failure::new(ErrorCode::Forbidden, message));
        }
        let id = once.id();
        if once.is_again()
            && let Some(made) = self.catalog.agent(who.tenant, &id).await?
        {
            return Ok(agent_out(made));
        }
        let agent = elevo_catalog::Agent {
            id,
            tenant: who.tenant,
            name: wish.name,
            created: clock::now(),
        };
        self.catalog.add_agent(&agent).await?;
        Ok(agent_out(agent))
    }

    /// Revokes all keys of an agent. The agent's row stays, because the history
    /// of projects names the agent.
    pub(crate) async fn end_agent(&self, who: &Principal, id: &AgentId) -> Result<()> {
        who.needs(Scope::Keys)?;
        if who.agent.is_some() {
            let message = "a key that is bound to an agent cannot end agents";
            return Err(Failure::new(ErrorCode::Forbidden, message));
        }
        let found = self.catalog.agent(who.tenant, id).await?;
        found.ok_or_else(|| no_agent(id))?;
        let keys = self.catalog.keys(who.tenant).await?;
        let own = keys.iter().filter(|key| key.agent.as_ref() == Some(id));
        for key in own.filter(|key| key.revoked.is_none()) {
            self.catalog
                .revoke_key(who.tenant, &key.id, clock::now())
                .await?;
        }
        self.note_revocation();
        Ok(())
    }

    pub(crate) async fn agents(&self, who: &Principal, page: PageQuery) -> Result<api::AgentPage> {
        who.needs(Scope::Keys)?;
        let agents = self.catalog.agents(who.tenant).await?.into_iter();
        let visible = agents.filter(|agent| who.agent.as_ref().is_none_or(|own| *own == agent.id));
        let position = |agent: &Agent| Position {
            created: agent.created,
            id: agent.id.to_string(),
        };
        let (agents, next) = page.cut_by_position(visible, position)?;
        let items = agents.into_iter().map(agent_out).collect();
        Ok(api::AgentPage { items, next })
    }

    /// Creates a key with every scope and no limits, for the owner of a tenant.
    /// Returns the secret of the key.
    pub(crate) async fn create_owner_key(&self, tenant: TenantId, name: &str) -> Result<String> {
        let secret = ApiKeySecret::from_random(clock::random());
        self.add_owner_key(tenant, name, secret.hash(), &Scope::ALL)
            .await?;
        Ok(secret.reveal())
    }

    /// Adds a key without limits and without an expiry. `hash` is the hash of
    /// its secret, which the caller has created or read from the settings.
    pub(crate) async fn add_owner_key(
        &self,
        tenant: TenantId,
        name: &str,
        hash: [u8; 32],
        scopes: &[Scope],
    ) -> Result<()> {
        let key = ApiKey {
            id: clock::id(),
            tenant,
            agent: None,
            name: name.into(),
            hash,
            scopes: scopes.iter().map(|scope| scope.name().into()).collect(),
            limits: KeyLimits::default(),
            created: clock::now(),
            expires: None,
            revoked: None,
        };
        Ok(self.catalog.add_key(&key).await?)
    }
}

fn not_own_agent() -> Failure {
    let message = "this key is bound to an agent and can create keys only for that agent";
    Failure::new(ErrorCode::Forbidden, message)
}

fn limits_in(limits: api::KeyLimits) -> KeyLimits {
    KeyLimits {
        creates_per_minute: limits.creates_per_minute,
        commands_per_minute: limits.commands_per_minute,
        requests_per_minute: limits.requests_per_minute,
        sandboxes: limits.sandboxes,
        runtimes: limits.runtimes,
        networks: limits.networks.map(spec::networks_in),
    }
}

/// Returns the limits of a new key if they are at most those of the key that
/// creates it.
fn within(wanted: KeyLimits, own: &KeyLimits) -> Result<KeyLimits> {
    let pairs = [
        (wanted.creates_per_minute, own.creates_per_minute),
        (wanted.commands_per_minute, own.commands_per_minute),
        (wanted.requests_per_minute, own.requests_per_minute),
        (wanted.sandboxes, own.sandboxes),
    ];
    if pairs.iter().any(|(wanted, _)| *wanted == Some(0)) {
        return Err(Failure::invalid("a limit of a key must be at least 1"));
    }
    // A limit of `None` means unlimited.
    let wider = |(wanted, own): &(Option<u32>, Option<u32>)| match (wanted, own) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(wanted), Some(own)) => wanted > own,
    };
    let more = |wanted: &Option<Vec<String>>, own: &Option<Vec<String>>| match (wanted, own) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(wanted), Some(own)) => wanted.iter().any(|name| !own.contains(name)),
    };
    if pairs.iter().any(wider)
        || more(&wanted.runtimes, &own.runtimes)
        || more(&wanted.networks, &own.networks)
    {
        let message = "a key cannot have wider limits than the key that creates it";
        return Err(Failure::new(ErrorCode::Forbidden, message));
    }
    Ok(wanted)
}

pub(super) fn limits_out(limits: KeyLimits) -> api::KeyLimits {
    api::KeyLimits {
        creates_per_minute: limits.creates_per_minute,
        commands_per_minute: limits.commands_per_minute,
        requests_per_minute: limits.requests_per_minute,
        sandboxes: limits.sandboxes,
        runtimes: limits.runtimes,
        networks: limits.networks.map(spec::networks_out),
    }
}

fn key_out(key: ApiKey) -> api::Key {
    api::Key {
        id: key.id.to_string(),
        name: key.name,
        scopes: key.scopes,
        agent: key.agent.as_ref().map(ToString::to_string),
        limits: limits_out(key.limits),
        created_at: clock::text(key.created),
        expires_at: key.expires.map(clock::text),
        revoked_at: key.revoked.map(clock::text),
    }
}

fn agent_out(agent: elevo_catalog::Agent) -> api::Agent {
    api::Agent {
        id: agent.id.to_string(),
        name: agent.name,
        created_at: clock::text(agent.created),
    }
}
