//! The specification of a sandbox: the request with all defaults filled in. The
//! row of the sandbox stores it.

use std::collections::BTreeMap;

use elevo_api as api;
use elevo_api::{NetworkMode, OnExpiry, format_size, parse_cpu, parse_limit};
use elevo_catalog::Sandbox;
use elevo_core::ErrorCode;
use elevo_objects::SnapshotId;
use serde::{Deserialize, Serialize};

use crate::app::access::principal::Principal;
use crate::config::{Config, Limits};
use crate::failure::{Failure, Result, short};
use crate::platform::clock;

/// The specification of a sandbox, as its row stores it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) image: String,
    pub(crate) writable_root: bool,
    /// The sealed environment variables; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) variables: Option<String>,
    /// Thousandths of a processor.
    pub(crate) cpu: u32,
    /// Bytes.
    pub(crate) memory: u64,
    /// Bytes; `None` if this machine cannot limit the disk of a workspace.
    pub(crate) disk: Option<u64>,
    pub(crate) pids: u32,
    pub(crate) network: NetworkMode,
    #[serde(default)]
    pub(crate) runtime: Option<String>,
    /// The lifetime in seconds, without extensions.
    pub(crate) timeout: u64,
    #[serde(default)]
    pub(crate) on_expiry: OnExpiry,
    /// The snapshot that the workspace started from, unless the row of the
    /// workspace records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<api::Origin>,
    /// The state of the workspace before the sandbox, if the sandbox was created
    /// on an existing workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Before>,
}

/// The state of a workspace before a sandbox was created on it. If the sandbox
/// never starts, the workspace returns to this state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Before {
    /// Whether the workspace had a directory.
    pub(crate) is_live: bool,
    /// When the workspace expires.
    pub(crate) expires: Option<String>,
}

impl Spec {
    /// Reads the specification of an existing sandbox.
    pub(crate) fn of(sandbox: &Sandbox) -> Result<Self> {
        serde_json::from_value(sandbox.spec.clone()).map_err(|error| Failure::internal(&error))
    }

    /// Resolves a request: fills in the defaults, and rejects values beyond the
    /// limits of the server, the tenant and the key.
    pub(crate) fn decide(
        config: &Config,
        boundary: &Boundary<'_>,
        wish: &api::CreateSandbox,
        template: &elevo_catalog::Template,
        can_limit: bool,
    ) -> Result<Self> {
        let limits = &config.limits;
        check_envs(&wish.envs)?;
        Ok(Self {
            image: template.image.clone(),
            writable_root: template.writable_root,
            variables: None,
            cpu: amount(wish.resources.cpu.as_deref(), limits.cpu, "cpu", parse_cpu)?,
            memory: amount(
                wish.resources.memory.as_deref(),
                limits.memory,
                "memory",
                parse_limit,
            )?,
            disk: disk(&wish.resources, limits, can_limit)?,
            pids: pids(wish.resources.pids, limits.pids)?,
            network: boundary.network(wish.network)?,
            runtime: boundary.runtime(wish.runtime.as_deref())?,
            timeout: timeout(wish.timeout_seconds, limits)?,
            on_expiry: wish.on_expiry.unwrap_or_default(),
            base: None,
            origin: None,
            before: None,
        })
    }

    /// Records that the sandbox is created from a snapshot.
    pub(crate) fn starts_from(&mut self, snapshot: &SnapshotId) {
        self.base = Some(snapshot.to_string());
        self.origin = Some(api::Origin {
            snapshot: Some(snapshot.to_string()),
            ..api::Origin::default()
        });
    }

    /// Records that the sandbox is a fork of `origin`, whose workspace started
    /// from `base`.
    pub(crate) fn forks(&mut self, origin: &Sandbox, base: Option<String>) {
        self.base = base;
        self.origin = Some(api::Origin {
            sandbox: Some(origin.id.to_string()),
            ..api::Origin::default()
        });
    }

    /// Sets the disk limit to that of existing files. Rejects a request for
    /// another limit, with `message`.
    pub(crate) fn keep_disk(
        &mut self,
        wish: &api::CreateSandbox,
        disk: Option<u64>,
        message: &str,
    ) -> Result<()> {
        if wish.resources.disk.is_some() && self.disk != disk {
            let failure = Failure::new(ErrorCode::ResourceRefused, message);
            return Err(failure.about("resource", "disk").about("limit", disk));
        }
        self.disk = disk;
        Ok(())
    }

    /// Returns true if a container with this specification can be used for a
    /// sandbox with the specification `other`. The disk limit and the lifetime
    /// may differ, because a container does not depend on them.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let container = |spec: &Self| {
            let limits = (spec.cpu, spec.memory, spec.pids);
            (spec.writable_root, limits, spec.network)
        };
        self.image == other.image
            && self.runtime == other.runtime
            && container(self) == container(other)
    }

    fn resources(&self) -> api::Resources {
        let cpu = match self.cpu % 1000 {
            0 => (self.cpu / 1000).to_string(),
            _ => format!("{:.3}", f64::from(self.cpu) / 1000.0)
                .trim_end_matches('0')
                .to_owned(),
        };
        api::Resources {
            cpu: Some(cpu),
            memory: Some(format_size(self.memory)),
            disk: self.disk.map(format_size),
            pids: Some(self.pids),
        }
    }
}

/// The networks and runtimes that a principal may choose: those that the server,
/// the tenant and the key all allow.
pub(crate) struct Boundary<'a> {
    config: &'a Config,
    /// The allowed networks of the tenant and of the key; `None` allows all.
    networks: [Option<&'a [String]>; 2],
    /// The allowed runtimes of the tenant and of the key; `None` allows all.
    runtimes: [Option<&'a [String]>; 2],
}

impl<'a> Boundary<'a> {
    pub(crate) fn of(config: &'a Config, who: &'a Principal) -> Self {
        let (tenant, key) = (&who.tenant_limits, &who.limits);
        Self {
            config,
            networks: [tenant.networks.as_deref(), key.networks.as_deref()],
            runtimes: [tenant.runtimes.as_deref(), key.runtimes.as_deref()],
        }
    }

    /// Returns the boundary for warm pools, which belong to no tenant.
    pub(crate) fn of_server(config: &'a Config) -> Self {
        Self {
            config,
            networks: [None; 2],
            runtimes: [None; 2],
        }
    }

    /// Denies the network or the runtime of an existing sandbox if the principal
    /// may not choose it.
    pub(crate) fn check(&self, spec: &Spec) -> Result<()> {
        self.network(Some(spec.network))?;
        self.runtime(spec.runtime.as_deref()).map(drop)
    }

    fn network(&self, wished: Option<NetworkMode>) -> Result<NetworkMode> {
        let is_allowed = |network: &NetworkMode| {
            self.config.networks.contains(network) && is_in_all(network.name(), self.networks)
        };
        // If the request names no network, the default of the server applies. If
        // that is not allowed, the strictest allowed network applies.
        let default = self.config.default_network;
        let default = [default, NetworkMode::None, NetworkMode::Internet];
        let found = match wished {
            Some(wished) => Some(wished).filter(is_allowed),
            None => default.into_iter().find(is_allowed),
        };
        found.ok_or_else(|| {
            let name = wished.unwrap_or(self.config.default_network).name();
            let message =
                format!("the network `{name}` is not allowed for this key on this server");
            let failure = Failure::new(ErrorCode::ResourceRefused, message);
            failure.about("resource", "network")
        })
    }

    fn runtime(&self, wished: Option<&str>) -> Result<Option<String>> {
        let default = self.config.default_runtime.as_deref();
        let Some(wished) = wished.filter(|wished| Some(*wished) != default) else {
            return Ok(default.map(str::to_owned));
        };
        let of_server = Some(self.config.runtimes.as_slice());
        match is_in_all(wished, [of_server]) && is_in_all(wished, self.runtimes) {
            true => Ok(Some(wished.to_owned())),
            false => {
                let message = format!(
                    "the runtime `{}` is not allowed for this key on this server",
                    short(wished)
                );
                let failure = Failure::new(ErrorCode::ResourceRefused, message);
                Err(failure
                    .about("resource", "runtime")
                    .remediation("Leave out `runtime`, or ask the operator to add it to RUNTIMES."))
            }
        }
    }
}

/// Returns true if a name is in every list. `None` stands for a list of all
/// names.
fn is_in_all<const N: usize>(name: &str, lists: [Option<&[String]>; N]) -> bool {
    let has = |list: &[String]| list.iter().any(|one| one == name);
    lists.into_iter().flatten().all(has)
}

/// Converts networks to their names in the catalog.
pub(crate) fn networks_in(networks: Vec<NetworkMode>) -> Vec<String> {
    let names = networks.iter().map(|network| network.name().to_owned());
    names.collect()
}

/// Converts names in the catalog to networks.
pub(crate) fn networks_out(names: Vec<String>) -> Vec<NetworkMode> {
    let all = [NetworkMode::None, NetworkMode::Internet];
    let mut all = all.to_vec();
    all.retain(|network| names.iter().any(|name| name == network.name()));
    all
}

/// Converts a sandbox to its form in the API.
pub(crate) fn out(sandbox: &Sandbox) -> Result<api::Sandbox> {
    let spec = Spec::of(sandbox)?;
    Ok(api::Sandbox {
        id: sandbox.id.to_string(),
        workspace: sandbox.workspace.to_string(),
        project: sandbox.project.as_ref().map(ToString::to_string),
        base: sandbox
            .base
            .map(|base| base.to_string())
            .or(spec.base.clone()),
        origin: spec.origin.clone(),
        name: sandbox.name.clone(),
        state: sandbox.state.into(),
        reason: sandbox.reason.clone(),
        template: sandbox.template.clone(),
        agent: sandbox.agent.as_ref().map(ToString::to_string),
        resources: spec.resources(),
        network: spec.network,
        runtime: spec.runtime,
        created_at: clock::text(sandbox.created),
        expires_at: clock::text(sandbox.expires),
        on_expiry: spec.on_expiry,
        metadata: sandbox.metadata.clone(),
    })
}

/// Returns the lifetime of a new sandbox in seconds.
pub(crate) fn timeout(seconds: Option<u32>, limits: &Limits) -> Result<u64> {
    let longest = limits.max_lifetime.as_secs();
    let seconds = seconds.map_or(limits.default_timeout.as_secs(), u64::from);
    match seconds {
        0 => Err(Failure::invalid("`timeoutSeconds` must be at least 1")),
        _ if seconds > longest => Err(refused("timeoutSeconds", longest)),
        _ => Ok(seconds),
    }
}

/// Parses a requested amount. Returns the default if there is none, and fails if
/// it exceeds the maximum.
fn amount<T: PartialOrd + Copy + Into<u64>>(
    wanted: Option<&str>,
    (default, most): (T, T),
    name: &str,
    parse: impl Fn(&str) -> Result<T, api::InvalidSize>,
) -> Result<T> {
    let Some(text) = wanted else {
        return Ok(default);
    };
    let wanted = parse(text).map_err(|error| Failure::invalid(format!("`{name}`: {error}")))?;
    match wanted <= most {
        true => Ok(wanted),
        false => Err(refused(name, most.into())),
    }
}

fn disk(wanted: &api::Resources, limits: &Limits, can_limit: bool) -> Result<Option<u64>> {
    let bytes = amount(wanted.disk.as_deref(), limits.disk, "disk", parse_limit)?;
    match (can_limit, &wanted.disk) {
        (true, _) => Ok(Some(bytes)),
        (false, None) => Ok(None),
        (false, Some(_)) => {
            let message = "this server cannot limit the disk space of a workspace";
            let failure =
                Failure::new(ErrorCode::ResourceRefused, message).about("resource", "disk");
            Err(failure
                .remediation("Leave `disk` out, or run the server as root with btrfs available."))
        }
    }
}

/// Returns the disk limit of a workspace without a sandbox.
pub(crate) fn workspace_disk(
    config: &Config,
    wanted: Option<&str>,
    can_limit: bool,
) -> Result<Option<u64>> {
    let wanted = api::Resources {
        disk: wanted.map(str::to_owned),
        ..api::Resources::default()
    };
    disk(&wanted, &config.limits, can_limit)
}

fn pids(wanted: Option<u32>, (default, most): (u32, u32)) -> Result<u32> {
    match wanted {
        None => Ok(default),
        Some(wanted) if wanted < 8 => Err(Failure::invalid("`pids` must be at least 8")),
        Some(wanted) if wanted > most => Err(refused("pids", most.into())),
        Some(wanted) => Ok(wanted),
    }
}

fn refused(name: &str, most: u64) -> Failure {
    let message = format!("`{name}` exceeds the maximum of this server, which is {most}");
    Failure::new(ErrorCode::ResourceRefused, message)
        .about("resource", name)
        .about("limit", most)
}

/// Rejects variables that an environment cannot hold, and variables that the
/// workspace agent uses itself.
pub(crate) fn check_envs(envs: &BTreeMap<String, String>) -> Result<()> {
    const OURS: [&str; 4] = [
        "WORKSPACE_SERVER",
        "SANDBOX_ID",
        "SANDBOX_TOKEN",
        "AGENT_LOG_LEVEL",
    ];
    let size: usize = envs
        .iter()
        .map(|(name, value)| name.len() + value.len() + 2)
        .sum();
    if envs.len() > 1000 || size > 64 << 10 {
        return Err(Failure::invalid(
            "`envs` has more than 1000 variables or more than 64 KiB",
        ));
    }
    for (name, value) in envs {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let message = format!(
                "`envs`: `{}` is not a valid variable",
                crate::failure::short(name)
            );
            return Err(Failure::invalid(message));
        }
        if OURS.contains(&name.as_str()) {
            return Err(Failure::invalid(format!(
                "`envs`: `{name}` is reserved for the workspace agent"
            )));
        }
    }
    Ok(())
}
