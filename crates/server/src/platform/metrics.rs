//! Metrics for Prometheus, with their documented names.

use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use elevo_api::{PoolStats, SandboxCounts};
use elevo_catalog::DeliveryState;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
/// Reads the memory, processor time, threads and file descriptors of the server.
static PROCESS: LazyLock<Collector> = LazyLock::new(Collector::default);

const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

/// Counters that are registered at the start, so that their rate is 0 instead
/// of absent before the first event.
const COUNTERS: &[(&str, &str)] = &[
    ("sandbox_creation_total", "Requested sandboxes"),
    (
        "sandbox_creation_failures_total",
        "Sandboxes that could not be created",
    ),
    (
        "audit_failures_total",
        "Requests that could not be recorded in the audit log",
    ),
];

const LABELLED: &[(&str, &str)] = &[
    ("api_request_total", "Requests by endpoint and status"),
    (
        "port_requests_total",
        "Requests to ports of sandboxes, by form of the address and class of the status",
    ),
    (
        "sandbox_pool_claims_total",
        "Requested sandboxes by whether a warm sandbox was available (result)",
    ),
    (
        "webhook_deliveries_total",
        "Attempts to deliver an event, by result",
    ),
];

const HISTOGRAMS: &[(&str, &str)] = &[
    (
        "api_request_duration_seconds",
        "Duration of requests by endpoint",
    ),
    (
        "sandbox_create_duration_seconds",
        "From the creation of a sandbox's row to the connection of its agent",
    ),
    (
        "sandbox_fork_duration_seconds",
        "Duration of fork requests, until all forks run",
    ),
    (
        "snapshot_duration_seconds",
        "Duration of snapshots of the workspaces of sandboxes",
    ),
    (
        "merge_duration_seconds",
        "Duration of merges, including the wait for their turn",
    ),
    (
        "exec_start_duration_seconds",
        "Time from a request until its command runs",
    ),
    (
        "exec_duration_seconds",
        "Duration of commands in the foreground",
    ),
];

const GAUGES: &[(&str, &str)] = &[
    ("sandbox_total", "Sandboxes by state"),
    ("agents_connected", "Connected workspace agents"),
    (
        "port_connections",
        "Open WebSockets and TCP connections to ports of sandboxes",
    ),
    (
        "workspaces_quarantined",
        "Workspaces in quarantine, which have no row in the catalog",
    ),
    ("sandbox_pool_size", "Configured number of warm sandboxes"),
    ("sandbox_pool_ready", "Warm sandboxes that are ready"),
    (
        "data_disk_used_ratio",
        "Used fraction of the data directory's disk",
    ),
    (
        "store_writable",
        "1 if the store accepts writes; at 0 the server needs a restart",
    ),
    ("catalog_log_bytes", "Size of the catalog's write-ahead log"),
    ("memory_used_ratio", "Used fraction of the machine's memory"),
];

fn describe() {
    for (name, meaning) in COUNTERS {
        describe_counter!(*name, *meaning);
        counter!(*name).increment(0);
    }
    for (name, meaning) in LABELLED {
        describe_counter!(*name, *meaning);
    }
    for (name, meaning) in HISTOGRAMS {
        describe_histogram!(*name, metrics::Unit::Seconds, *meaning);
    }
    for (name, meaning) in GAUGES {
        describe_gauge!(*name, *meaning);
    }
    PROCESS.describe();
}

/// Installs the recorder of metrics, once per process.
pub(crate) fn begin() {
    HANDLE.get_or_init(|| {
        let suffix = Matcher::Suffix("_seconds".into());
        let builder = PrometheusBuilder::new();
        let builder = match builder.set_buckets_for_metric(suffix, SECONDS) {
            Ok(builder) => builder,
            Err(_) => unreachable!("there are buckets"),
        };
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // If another recorder is already installed, this one counts nothing.
        let _ = metrics::set_global_recorder(recorder);
        describe();
        handle
    });
}

pub(crate) fn render() -> String {
    HANDLE
        .get()
        .map(PrometheusHandle::render)
        .unwrap_or_default()
}

/// Moves recorded values into the histograms, which bounds their memory.
pub(crate) fn upkeep() {
    if let Some(handle) = HANDLE.get() {
        handle.run_upkeep();
    }
}

pub(crate) fn answered(endpoint: &str, status: u16, elapsed: Duration) {
    let endpoint = endpoint.to_owned();
    counter!("api_request_total", "endpoint" => endpoint.clone(), "status" => status.to_string())
        .increment(1);
    histogram!("api_request_duration_seconds", "endpoint" => endpoint).record(elapsed);
}

/// Counts a request to a port.
pub(crate) fn port_answered(form: &'static str, status: u16) {
    let class = format!("{}xx", status / 100);
    counter!("port_requests_total", "form" => form, "status" => class).increment(1);
}

/// Counts an open connection to a port until it is dropped.
pub(crate) struct PortConnection;

pub(crate) fn port_opened() -> PortConnection {
    gauge!("port_connections").increment(1);
    PortConnection
}

impl Drop for PortConnection {
    fn drop(&mut self) {
        gauge!("port_connections").decrement(1);
    }
}

pub(crate) fn created(elapsed: Duration) {
    counter!("sandbox_creation_total").increment(1);
    histogram!("sandbox_create_duration_seconds").record(elapsed);
}

pub(crate) fn creation_failed() {
    counter!("sandbox_creation_total").increment(1);
    counter!("sandbox_creation_failures_total").increment(1);
}

pub(crate) fn forked(elapsed: Duration) {
    histogram!("sandbox_fork_duration_seconds").record(elapsed);
}

pub(crate) fn snapshot_taken(elapsed: Duration) {
    histogram!("snapshot_duration_seconds").record(elapsed);
}

pub(crate) fn command_started(elapsed: Duration) {
    histogram!("exec_start_duration_seconds").record(elapsed);
}

pub(crate) fn command_ended(elapsed: Duration) {
    histogram!("exec_duration_seconds").record(elapsed);
}

pub(crate) fn quarantined(count: usize) {
    gauge!("workspaces_quarantined").set(count as f64);
}

pub(crate) fn agents(connected: usize) {
    gauge!("agents_connected").set(connected as f64);
}

/// Sets the gauges of the machine and of the server process. Values that cannot be read are left out.
pub(crate) fn machine(disk: Option<f64>) {
    if let Some(used) = disk {
        gauge!("data_disk_used_ratio").set(used);
    }
    if let Some(used) = memory_used() {
        gauge!("memory_used_ratio").set(used);
    }
    PROCESS.collect();
}

fn memory_used() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().split(' ').next()?.parse().ok()
    };
    Some(1.0 - kilobytes("MemAvailable:")? / kilobytes("MemTotal:")?)
}

pub(crate) fn databases(store_is_writable: bool, catalog_log: u64) {
    gauge!("store_writable").set(f64::from(u8::from(store_is_writable)));
    gauge!("catalog_log_bytes").set(catalog_log as f64);
}

pub(crate) fn sandboxes(counts: &SandboxCounts) {
    let by_state = [
        ("starting", counts.starting),
        ("running", counts.running),
        ("stopping", counts.stopping),
        ("stopped", counts.stopped),
        ("error", counts.error),
    ];
    for (state, count) in by_state {
        gauge!("sandbox_total", "state" => state).set(count as f64);
    }
}

/// Counts a requested sandbox by whether a warm sandbox was available.
pub(crate) fn taken(warm: bool) {
    let result = if warm { "warm" } else { "cold" };
    counter!("sandbox_pool_claims_total", "result" => result).increment(1);
}

pub(crate) fn pools(pools: &[PoolStats]) {
    for pool in pools {
        let labels = [
            ("template", pool.template.clone()),
            ("network", pool.network.name().into()),
            ("runtime", pool.runtime.clone().unwrap_or_default()),
        ];
        gauge!("sandbox_pool_size", &labels).set(pool.size);
        gauge!("sandbox_pool_ready", &labels).set(pool.ready);
    }
}

/// Counts an attempt to deliver an event.
pub(crate) fn delivered(state: DeliveryState) {
    let result = match state {
        DeliveryState::Delivered => "delivered",
        DeliveryState::Pending => "again",
        DeliveryState::Failed => "failed",
    };
    counter!("webhook_deliveries_total", "result" => result).increment(1);
}

/// Counts a record that could not be written to the audit log.
pub(crate) fn audit_failed() {
    counter!("audit_failures_total").increment(1);
}

pub(crate) fn merged(elapsed: Duration) {
    histogram!("merge_duration_seconds").record(elapsed.as_secs_f64());
}
