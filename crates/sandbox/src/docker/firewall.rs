use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use futures::future::join;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::rules::{self, Family, Rules};
use crate::error::{Error, Result};
use crate::host_limits::HostLimits;

/// Timeout of one run of `iptables`, which may wait for the lock on the table.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of attempts to change the table. An attempt may fail because another
/// program has changed the table since it was read.
const TRIES: usize = 3;
/// Number of checks for the hook to the engine's chain, and the pause between
/// two checks: the engine removes and inserts the hook whenever it creates a
/// network.
const LOOKS: usize = 10;
const BETWEEN: Duration = Duration::from_millis(50);
/// Directories of the tools that may be missing in the PATH of a service.
const PLACES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
/// Without this setting, packets between two ports of one bridge bypass the
/// rules.
const BRIDGE_FILTER: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
/// Exists if the kernel supports IPv6.
const V6: &str = "/proc/net/if_inet6";

/// Checks that rules can be set and that packets pass them.
pub(super) async fn probe() -> Result<()> {
    bridges_are_filtered().await?;
    saved_with_hook().await.map(drop)
}

/// Sets the rules of a network, unless they are already set. Limits that the
/// kernel does not support are removed from `limits`, with a warning.
pub(super) async fn ensure(
    server: &str,
    network: &str,
    resolvers: &[IpAddr],
    limits: &mut HostLimits,
) -> Result<()> {
    let Err(error) = set(server, network, resolvers, limits).await else {
        return Ok(());
    };
    // If the rules fail for another reason than the limits, they also fail
    // without the limits.
    for fewer in fewer(limits) {
        if set(server, network, resolvers, &fewer).await.is_ok() {
            tracing::warn!(
                %error,
                wanted = ?limits,
                kept = ?fewer,
                "the kernel lacks xt_connlimit or xt_hashlimit: \
                 some network limits of sandboxes are not enforced"
            );
            *limits = fewer;
            return Ok(());
        }
    }
    Err(error)
}

/// Returns weaker limits to try: first without either of the two kinds of
/// rules, then without both.
fn fewer(limits: &HostLimits) -> Vec<HostLimits> {
    let of_connections = HostLimits {
        connections_per_second: 0,
        network_mib: 0,
        ..*limits
    };
    let of_rates = HostLimits {
        connections: 0,
        ..*limits
    };
    let none = HostLimits {
        connections: 0,
        ..of_connections
    };
    let mut fewer = vec![of_rates, of_connections, none];
    fewer.retain(|fewer| fewer != limits);
    fewer
}

async fn set(server: &str, network: &str, resolvers: &[IpAddr], limits: &HostLimits) -> Result<()> {
    bridges_are_filtered().await?;
    let rules = |family| Rules::of(server, network, family, resolvers, limits);
    let v4 = bring(Family::V4, rules(Family::V4));
    let (v4, v6) = join(v4, bring(Family::V6, rules(Family::V6))).await;
    v4.and(v6)
}

async fn bridges_are_filtered() -> Result<()> {
    let read = tokio::task::spawn_blocking(|| std::fs::read_to_string(BRIDGE_FILTER)).await;
    if read.is_ok_and(|text| text.is_ok_and(|text| text.trim() == "1")) {
        return Ok(());
    }
    Err(unable(
        "the kernel does not filter packets on bridges; run `modprobe br_netfilter` and \
         `sysctl net.bridge.bridge-nf-call-iptables=1`",
    ))
}

/// Returns the filter table, if forwarded packets pass the engine's chain.
async fn saved_with_hook() -> Result<String> {
    for _ in 0..LOOKS {
        let saved = save(Family::V4).await?;
        if rules::has_docker_chain(&saved) {
            return Ok(saved);
        }
        tokio::time::sleep(BETWEEN).await;
    }
    Err(unable(
        "forwarded packets do not pass the engine's chain DOCKER-USER in iptables; run the \
         engine with its option `iptables`, as root and in this network namespace",
    ))
}

/// Deletes all rules of this installation.
pub(super) async fn clear(server: &str) -> Result<()> {
    let v4 = bring(Family::V4, Rules::none(server));
    let (v4, v6) = join(v4, bring(Family::V6, Rules::none(server))).await;
    v4.and(v6)
}

async fn bring(family: Family, rules: Rules) -> Result<()> {
    if family == Family::V6 && !Path::new(V6).exists() {
        return Ok(());
    }
    let mut last = Ok(());
    for _ in 0..TRIES {
        let saved = match family == Family::V4 && !rules.is_empty() {
            true => saved_with_hook().await?,
            false => save(family).await?,
        };
        let Some(script) = rules.changes_from(&saved) else {
            return Ok(());
        };
        tracing::info!(?family, "setting the rules of the sandboxes' network");
        last = restore(family, script).await;
    }
    last?;
    match rules.changes_from(&save(family).await?) {
        None => Ok(()),
        Some(_) => Err(unable(
            "the rules were set, but the table differs from them; another program may be changing it",
        )),
    }
}

async fn save(family: Family) -> Result<String> {
    let tool = match family {
        Family::V4 => "iptables-save",
        Family::V6 => "ip6tables-save",
    };
    let output = run(tool, &["-t", "filter"], String::new()).await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn restore(family: Family, script: String) -> Result<()> {
    let tool = match family {
        Family::V4 => "iptables-restore",
        Family::V6 => "ip6tables-restore",
    };
    run(tool, &["--noflush", "--wait", "10"], script).await?;
    Ok(())
}

/// Adds rules in the network namespace that the file `namespace` refers to.
pub(super) async fn restore_in(namespace: &str, script: String) -> Result<()> {
    let tool = find("iptables-restore");
    let enter = format!("--net={namespace}");
    let restore = [
        &*enter,
        "--",
        &tool.to_string_lossy(),
        "--noflush",
        "--wait",
        "10",
    ];
    run("nsenter", &restore, script).await?;
    Ok(())
}

async fn run(tool: &str, arguments: &[&str], input: String) -> Result<Output> {
    let running = async {
        let mut child = Command::new(find(tool))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A tool that fails before it reads its input reports the error
            // itself.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = match tokio::time::timeout(PATIENCE, running).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(unable(&format!(
                "`{tool}` is missing; install the package `iptables`"
            )));
        }
        Ok(Err(error)) => return Err(unable(&format!("cannot run `{tool}`: {error}"))),
        Err(_) => return Err(unable(&format!("`{tool}` did not end within {PATIENCE:?}"))),
    };
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(unable(&format!(
        "`{tool}`, which needs root or CAP_NET_ADMIN, failed: {}",
        said.trim()
    )))
}

fn find(tool: &str) -> std::path::PathBuf {
    let mut places = PLACES.iter().map(|place| Path::new(place).join(tool));
    places
        .find(|path| path.exists())
        .unwrap_or_else(|| tool.into())
}

fn unable(why: &str) -> Error {
    Error::refused(
        "network",
        format!("{why}; the network `none` does not need this"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_unsupported_limits_by_kind() {
        let limits = HostLimits::default();
        let kinds = fewer(&limits).into_iter().map(|fewer| {
            let rates = (fewer.connections_per_second, fewer.network_mib);
            (fewer.connections > 0, rates != (0, 0))
        });
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds, [(false, true), (true, false), (false, false)]);
        assert!(fewer(&HostLimits::NONE).is_empty());
    }
}
