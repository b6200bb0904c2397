//! Limits the requests to ports that run at the same time, of each sandbox and
//! each tenant.

use std::collections::HashMap;
use std::sync::Arc;

use elevo_core::{ErrorCode, SandboxId, TenantId};
use parking_lot::Mutex;

use crate::failure::{Failure, Result};

/// A tenant may run this many times the requests of a sandbox.
const OF_TENANT: usize = 4;

/// The numbers of running requests.
#[derive(Debug)]
pub(crate) struct Bounds {
    of_sandbox: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    sandboxes: HashMap<SandboxId, usize>,
    tenants: HashMap<TenantId, usize>,
}

/// Counts a request until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    bounds: Arc<Bounds>,
    tenant: TenantId,
    sandbox: SandboxId,
}

impl Bounds {
    pub(crate) fn new(of_sandbox: usize) -> Self {
        Self {
            of_sandbox,
            counts: Mutex::default(),
        }
    }

    /// Counts a request. Fails if the sandbox or the tenant has too many.
    pub(crate) fn take(self: &Arc<Self>, tenant: TenantId, sandbox: &SandboxId) -> Result<Permit> {
        let of_tenant = self.of_sandbox * OF_TENANT;
        let mut counts = self.counts.lock();
        let running = |count: Option<&usize>| count.copied().unwrap_or_default();
        if running(counts.sandboxes.get(sandbox)) >= self.of_sandbox {
            return Err(too_many("sandbox", self.of_sandbox));
        }
        if running(counts.tenants.get(&tenant)) >= of_tenant {
            return Err(too_many("tenant", of_tenant));
        }
        *counts.sandboxes.entry(sandbox.clone()).or_default() += 1;
        *counts.tenants.entry(tenant).or_default() += 1;
        drop(counts);
        Ok(Permit {
            bounds: self.clone(),
            tenant,
            sandbox: sandbox.clone(),
        })
    }
}

fn too_many(owner: &str, limit: usize) -> Failure {
    let message = format!("this {owner} has reached its limit of {limit} requests to ports");
    Failure::new(ErrorCode::RateLimited, message)
        .about("resource", "portRequests")
        .about("limit", limit)
        .remediation(
            "Wait until other requests and WebSockets have ended, then retry; or ask the operator \
             to raise PORT_REQUESTS.",
        )
        .retry_after(1)
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.bounds.counts.lock();
        release(&mut counts.sandboxes, &self.sandbox);
        release(&mut counts.tenants, &self.tenant);
    }
}

fn release<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, owner: &K) {
    if let Some(count) = counts.get_mut(owner) {
        *count -= 1;
        if *count == 0 {
            counts.remove(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use elevo_core::Id;

    use super::*;

    #[test]
    fn sandboxes_and_tenants_have_limits_that_dropped_permits_release() {
        let bounds = Arc::new(Bounds::new(2));
        let [one, other] = [1, 2].map(|byte| TenantId::new([byte; 16]));
        let boxes: Vec<_> = (0..6).map(|n| SandboxId::from_bytes(&[n; 16])).collect();
        let mut held: Vec<_> = (0..8)
            .map(|n| bounds.take(one, &boxes[n / 2]).unwrap())
            .collect();
        let full = bounds.take(one, &boxes[0]).unwrap_err();
        assert!(full.message.contains("sandbox"), "{full}");
        let full = bounds.take(one, &boxes[4]).unwrap_err();
        assert_eq!(
            (full.code, full.retry_after),
            (ErrorCode::RateLimited, Some(1))
        );
        assert!(full.message.contains("tenant"), "{full}");
        held.push(bounds.take(other, &boxes[5]).unwrap());
        held.remove(0);
        bounds.take(one, &boxes[0]).unwrap();
        drop(held);
        let counts = bounds.counts.lock();
        assert!(counts.sandboxes.is_empty() && counts.tenants.is_empty());
    }
}
