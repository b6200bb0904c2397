//! Prepares the data directory of a server, and opens the audit log in it.

use crate::config::Config;
use crate::platform::audit::{Audit, Entry};
use crate::platform::privacy::{close, private_directory};
use anyhow::Context;
use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// Creates the directories of a server, and installs the workspace agent.
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
    if config.store.is_none() {
        let store = data.join("store");
        close(&store).with_context(|| format!("cannot restrict access to {}", store.display()))?;
    }
    // Containers mount these two directories, and their users must be able to
    // read them.
    for path in [data.join("run/agents"), data.join("agent")] {
        let made = fs::create_dir_all(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
    }
    fs::set_permissions(data.join("run/agents"), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(data.join("agent"), fs::Permissions::from_mode(0o755))?;
    // Temporary files of a server that was killed.
    let _ = fs::remove_dir_all(data.join("scratch"));
    install_agent(config)
}

/// Copies the workspace agent into the data directory, from which containers
/// mount it. If the agent is missing, the server starts but cannot create
/// sandboxes.
pub(super) fn install_agent(config: &Config) -> anyhow::Result<()> {
    let Some((bytes, from)) = find_agent(config)? else {
        return Ok(());
    };
    let into = config.data_dir.join("agent/workspace-agent");
    // The agent is not written if it is unchanged, so that a start on a full disk
    // needs no space for it.
    if fs::read(&into).is_ok_and(|found| found == *bytes) {
        return Ok(());
    }
    // Running sandboxes keep the file that they started with.
    let temporary = config.data_dir.join("agent/.new");
    let written = fs::write(&temporary, &bytes).and_then(|()| {
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755))?;
        fs::rename(&temporary, &into)
    });
    written.with_context(|| format!("cannot copy the workspace agent {from}"))
}

/// Returns the workspace agent and its place: the file of the settings, the one
/// inside this program, or the file next to it. Returns `None` if there is none.
fn find_agent(config: &Config) -> anyhow::Result<Option<(Cow<'static, [u8]>, String)>> {
    let read = |path: &Path| {
        let read = fs::read(path).with_context(|| {
            let path = path.display();
            format!(
                "cannot read the workspace agent {path}; build it with scripts/agent and set \
                 AGENT_BINARY to its path"
            )
        });
        read.map(|bytes| Some((bytes.into(), path.display().to_string())))
    };
    if let Some(path) = &config.agent_binary {
        return read(path);
    }
    if let Some(bytes) = config.agent_inside {
        return Ok(Some((bytes.into(), "of this program".to_owned())));
    }
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let path = own.with_file_name("workspace-agent");
    if path.is_file() {
        return read(&path);
    }
    let path = path.display();
    tracing::warn!(
        %path,
        "the workspace agent is missing, so no sandbox can be created; set AGENT_BINARY to \
         its path and restart the server"
    );
    Ok(None)
}

pub(super) async fn open_audit(config: &Config) -> anyhow::Result<Arc<Audit>> {
    let (directory, settings) = (config.data_dir.join("audit"), config.audit);
    let opening = tokio::task::spawn_blocking(move || Audit::open(&directory, settings));
    let audit = opening.await?.context("cannot open the audit log")?;
    // The operator can compare this hash with the one logged at the last stop to
    // detect a change of the files.
    tracing::info!(head = %audit.head(), "head of the audit log");
    let started = Entry {
        event: "server.started",
        ..Entry::default()
    };
    audit.tell(started).await;
    Ok(Arc::new(audit))
}
