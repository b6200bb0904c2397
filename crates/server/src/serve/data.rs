//! The data directory of a server.

use crate::config::Config;
use crate::platform::audit::{Audit, Entry};
use crate::platform::privacy::{close, private_directory};
use anyhow::Context;
use elevo_catalog::{SqliteCatalog, SqliteOptions};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// Creates the directories, and installs the agent where containers see it.
pub(super) fn prepare(config: &Config) -> anyhow::Result<()> {
    let data = &config.data_dir;
    for path in [
        data.clone(),
        config.workspace_root.clone(),
        data.join("run"),
    ] {
        let made = private_directory(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
    }
    let store = data.join("store");
    close(&store).with_context(|| format!("cannot restrict access to {}", store.display()))?;
    // Containers see these two through mounts, with these modes.
    for path in [data.join("run/agents"), data.join("agent")] {
        let made = fs::create_dir_all(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
    }
    fs::set_permissions(data.join("run/agents"), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(data.join("agent"), fs::Permissions::from_mode(0o755))?;
    // Left by a killed server.
    let _ = fs::remove_dir_all(data.join("scratch"));
    install_agent(config)
}

/// Installs the agent. Without it the server starts, but cannot create
/// sandboxes.
pub(super) fn install_agent(config: &Config) -> anyhow::Result<()> {
    let from = match &config.agent_binary {
        Some(path) => path.clone(),
        None => {
            let own = std::env::current_exe().context("cannot find this program's own file")?;
            own.with_file_name("workspace-agent")
        }
    };
    if config.agent_binary.is_none() && !from.is_file() {
        let path = from.display();
        tracing::warn!(%path, "the agent is missing; sandboxes cannot start without it");
        return Ok(());
    }
    let into = config.data_dir.join("agent/workspace-agent");
    // The agent is large: a start on a full disk should not need space for it.
    if is_same(&from, &into) {
        return Ok(());
    }
    let temporary = config.data_dir.join("agent/.new");
    let copied = fs::copy(&from, &temporary).and_then(|_| {
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755))?;
        fs::rename(&temporary, &into)
    });
    copied.with_context(|| {
        let from = from.display();
        format!("cannot use the agent {from}; build it with scripts/agent and set AGENT_BINARY")
    })
}

/// Whether two files have the same content.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (File::open(one), File::open(other)) else {
        return false;
    };
    let length = |file: &File| file.metadata().map(|stat| stat.len()).ok();
    if length(&one) != length(&other) {
        return false;
    }
    let hash = |file: File| {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file).map(|hasher| hasher.finalize())
    };
    matches!((hash(one), hash(other)), (Ok(one), Ok(other)) if one == other)
}

pub(super) async fn open_catalog(config: &Config) -> anyhow::Result<Arc<SqliteCatalog>> {
    let path = config.data_dir.join("catalog.db");
    let catalog = SqliteCatalog::open(&path, &SqliteOptions::default()).await;
    let catalog = catalog.with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Arc::new(catalog))
}

pub(super) async fn open_audit(config: &Config) -> anyhow::Result<Arc<Audit>> {
    let (directory, settings) = (config.data_dir.join("audit"), config.audit);
    let opening = tokio::task::spawn_blocking(move || Audit::open(&directory, settings));
    let audit = opening.await?.context("cannot open the audit log")?;
    tracing::info!(head = %audit.head(), "audit log");
    let started = Entry {
        event: "server.started",
        ..Entry::default()
    };
    audit.tell(started).await;
    Ok(Arc::new(audit))
}
