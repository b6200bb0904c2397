use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerCpuStats, ContainerMemoryStats, ContainerStatsResponse};
use bollard::query_parameters::StatsOptionsBuilder;
use futures::StreamExt;

use crate::runtime::{ContainerId, Stats};

/// The period over which the usage of processors is measured.
const SPAN: Duration = Duration::from_millis(250);

pub(super) async fn measure(docker: &Docker, id: &ContainerId) -> Result<Stats, Error> {
    let before = sample(docker, id).await?;
    tokio::time::sleep(SPAN).await;
    let after = sample(docker, id).await?;
    Ok(stats(&before, &after))
}

async fn sample(docker: &Docker, id: &ContainerId) -> Result<ContainerStatsResponse, Error> {
    // Without `one_shot`, the engine itself takes two samples, which takes
    // seconds.
    let options = StatsOptionsBuilder::default()
        .stream(false)
        .one_shot(true)
        .build();
    let mut samples = Box::pin(docker.stats(id.as_str(), Some(options)));
    samples.next().await.unwrap_or_else(|| {
        Err(Error::DockerStreamError {
            error: "no sample".to_owned(),
        })
    })
}

fn stats(before: &ContainerStatsResponse, after: &ContainerStatsResponse) -> Stats {
    let memory = after.memory_stats.clone().unwrap_or_default();
    let networks = after.networks.iter().flat_map(|networks| networks.values());
    let (mut rx_bytes, mut tx_bytes) = (0, 0);
    for network in networks {
        rx_bytes += network.rx_bytes.unwrap_or(0);
        tx_bytes += network.tx_bytes.unwrap_or(0);
    }
    let pids = after.pids_stats.as_ref();
    Stats {
        cpu_percent: cpu_percent(before.cpu_stats.as_ref(), after.cpu_stats.as_ref()),
        memory_usage: memory_usage(&memory),
        memory_limit: memory.limit.unwrap_or(0),
        rx_bytes,
        tx_bytes,
        pids: pids.and_then(|pids| pids.current).unwrap_or(0),
    }
}

/// Returns the container's processor time in percent of one processor. The
/// processor time is compared with the time of all processors, which the engine
/// reads at the same moment.
#[expect(clippy::cast_precision_loss, reason = "a percentage")]
fn cpu_percent(before: Option<&ContainerCpuStats>, after: Option<&ContainerCpuStats>) -> f64 {
    let used = |stats: Option<&ContainerCpuStats>| {
        let usage = stats.and_then(|stats| stats.cpu_usage.as_ref());
        usage.and_then(|usage| usage.total_usage).unwrap_or(0)
    };
    let passed = |stats: Option<&ContainerCpuStats>| {
        let time = stats.and_then(|stats| stats.system_cpu_usage);
        time.unwrap_or(0)
    };
    let whole = passed(after).saturating_sub(passed(before));
    if whole == 0 {
        return 0.0;
    }
    let cpus = after.and_then(|stats| stats.online_cpus).unwrap_or(1);
    let part = used(after).saturating_sub(used(before));
    part as f64 / whole as f64 * f64::from(cpus) * 100.0
}

/// Returns the used memory without inactive cached files, as `docker stats`
/// does. The first of the two names below is used by cgroup v1.
fn memory_usage(memory: &ContainerMemoryStats) -> u64 {
    let detail = memory.stats.as_ref();
    let inactive = ["total_inactive_file", "inactive_file"]
        .iter()
        .find_map(|name| detail.and_then(|detail| detail.get(*name)));
    let usage = memory.usage.unwrap_or(0);
    usage.saturating_sub(inactive.copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use bollard::models::ContainerCpuUsage;

    use super::*;

    fn cpu(total: u64, system: u64) -> ContainerCpuStats {
        ContainerCpuStats {
            cpu_usage: Some(ContainerCpuUsage {
                total_usage: Some(total),
                ..ContainerCpuUsage::default()
            }),
            system_cpu_usage: Some(system),
            online_cpus: Some(4),
            throttling_data: None,
        }
    }

    #[test]
    fn one_busy_processor_of_four_is_a_hundred_percent() {
        let percent = cpu_percent(Some(&cpu(50, 1000)), Some(&cpu(150, 1400)));
        assert!((percent - 100.0).abs() < 1e-9, "{percent}");
    }

    #[test]
    fn a_container_that_does_not_run_uses_nothing() {
        assert_eq!(cpu_percent(None, None), 0.0);
        assert_eq!(memory_usage(&ContainerMemoryStats::default()), 0);
    }
}
