//! Measures the resources of the sandbox from its control group.

use std::fs;
use std::path::{Path, PathBuf};

use elevo_agent_proto::v1::{Heartbeat, ProcessEnd, ResourceUsage};
use rustix::process::Pid;
use tokio::time::Instant;

use crate::state::{Agent, now_ms};

const ROOT: &str = "/sys/fs/cgroup";

/// Measures the usage of resources. Keeps the previous measurement of processor
/// time.
pub(crate) struct Meter {
    group: PathBuf,
    last: Option<(Instant, u64)>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let mut meter = Self {
            group: own_group().unwrap_or_else(|| ROOT.into()),
            last: None,
        };
        meter.cpu_percent();
        meter
    }

    pub(crate) fn measure(&mut self) -> ResourceUsage {
        ResourceUsage {
            cpu_percent: self.cpu_percent(),
            memory_bytes: number(&self.group.join("memory.current")),
            disk_bytes: None,
            processes: number(&self.group.join("pids.current")).or_else(count_processes),
        }
    }

    /// Returns the used processor time since the previous call, in percent of
    /// one processor.
    fn cpu_percent(&mut self) -> Option<f64> {
        let stat = fs::read_to_string(self.group.join("cpu.stat")).ok()?;
        let used = stat
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "));
        let used: u64 = used?.trim().parse().ok()?;
        let now = Instant::now();
        let (then, before) = self.last.replace((now, used))?;
        let elapsed = now.duration_since(then).as_micros();
        (elapsed > 0).then(|| 100.0 * used.saturating_sub(before) as f64 / elapsed as f64)
    }
}

impl Agent {
    /// Sends a heartbeat with the used resources, and with the output that grew
    /// since the last heartbeat.
    pub(crate) fn beat(&self, meter: &mut Meter) {
        let usage = meter.measure();
        let mut state = self.lock();
        let mut ends = Vec::new();
        for (id, process) in &mut state.processes {
            let end = process.buffer.end();
            if process.is_running() && end != process.told_end {
                process.told_end = end;
                ends.push(ProcessEnd {
                    process_id: id.clone(),
                    end,
                });
            }
        }
        state.outbox.beat(Heartbeat {
            timestamp: now_ms(),
            resource_usage: Some(usage),
            ends,
        });
    }
}

/// Returns the directory of the agent's control group. In a cgroup namespace,
/// this is the root of the hierarchy.
fn own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let group = Path::new(ROOT).join(path);
    group.is_dir().then_some(group)
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Counts the processes in `/proc`. Returns `None` unless the agent is PID 1,
/// which sees exactly the processes of the sandbox.
fn count_processes() -> Option<u64> {
    if rustix::process::getpid() != Pid::INIT {
        return None;
    }
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let is_process = |name: &[u8]| name.iter().all(u8::is_ascii_digit);
    let count = entries.filter(|entry| is_process(entry.file_name().as_encoded_bytes()));
    Some(count.count() as u64)
}
