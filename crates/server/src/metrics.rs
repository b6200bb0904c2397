//! Numbers for Prometheus, by the names of the document.

use std::sync::OnceLock;
use std::time::Duration;

use elevo_api::{PoolStats, SandboxCounts};
use elevo_catalog::DeliveryState;
use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

/// Begins to count; once in a process.
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
        // Somebody else may have been first; then nothing is counted here.
        let _ = metrics::set_global_recorder(recorder);
        handle
    });
}

pub(crate) fn render() -> String {
    HANDLE
        .get()
        .map(PrometheusHandle::render)
        .unwrap_or_default()
}

/// Keeps histograms small.
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

pub(crate) fn created(elapsed: Duration) {
    counter!("sandbox_creation_total").increment(1);
    histogram!("sandbox_create_duration_seconds").record(elapsed);
}

pub(crate) fn creation_failed() {
    counter!("sandbox_creation_total").increment(1);
    counter!("sandbox_creation_failures_total").increment(1);
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

/// Somebody who wanted a sandbox found a warm one, or did not.
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

/// An event was sent to a webhook, or was not.
pub(crate) fn delivered(state: DeliveryState) {
    let result = match state {
        DeliveryState::Delivered => "delivered",
        DeliveryState::Pending => "again",
        DeliveryState::Failed => "failed",
    };
    counter!("webhook_deliveries_total", "result" => result).increment(1);
}

pub(crate) fn merged(elapsed: Duration) {
    histogram!("merge_duration_seconds").record(elapsed.as_secs_f64());
}
