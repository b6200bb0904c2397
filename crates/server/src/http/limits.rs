//! Rate limits of keys and tenants.

use std::num::NonZeroU32;
use std::sync::Arc;

use elevo_core::ErrorCode;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use quick_cache::sync::Cache;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::app::access::principal::Principal;
use crate::failure::{Failure, Result};

/// The kinds of requests with separate limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Class {
    /// Requests that create sandboxes.
    Create,
    /// Requests that run commands.
    Command,
    /// All other requests of a key.
    #[default]
    Other,
    /// All requests of a tenant.
    Tenant,
}

/// One token bucket for each key and class. A bucket that was not used for long
/// is evicted from the cache, and starts full again.
#[derive(Debug)]
pub(crate) struct RateLimits {
    buckets: Cache<(String, Class, u32), Arc<DefaultDirectRateLimiter>>,
    clock: DefaultClock,
    /// Permits to look up a key that the connection has not used before.
    pub(crate) strangers: Semaphore,
}

/// Maximum number of catalog readers that look up unknown keys at a time.
const STRANGERS: usize = 2;

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            buckets: Cache::new(10_000),
            clock: DefaultClock::default(),
            strangers: Semaphore::new(STRANGERS),
        }
    }
}

impl RateLimits {
    /// Takes tokens from the buckets of the key and the tenant, or fails with
    /// the time until they are available.
    pub(crate) fn take(&self, who: &Principal, class: Class, count: u32) -> Result<()> {
        let of_key = match class {
            Class::Create => who.limits.creates_per_minute,
            Class::Command => who.limits.commands_per_minute,
            Class::Other | Class::Tenant => who.limits.requests_per_minute,
        };
        self.take_from(who.key.to_string(), class, of_key, count, "this key")?;
        let of_tenant = who.tenant_limits.requests_per_minute;
        let tenant = who.tenant.to_string();
        self.take_from(tenant, Class::Tenant, of_tenant, count, "this tenant")
    }

    fn take_from(
        &self,
        owner: String,
        class: Class,
        limit: Option<u32>,
        count: u32,
        whose: &str,
    ) -> Result<()> {
        let Some(limit) = limit.and_then(NonZeroU32::new) else {
            return Ok(());
        };
        let name = (owner, class, limit.get());
        let make = || -> std::result::Result<_, std::convert::Infallible> {
            Ok(Arc::new(RateLimiter::direct(Quota::per_minute(limit))))
        };
        let Ok(bucket) = self.buckets.get_or_insert_with(&name, make);
        let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        let refused = |wait| {
            let what = match class {
                Class::Create => "new sandboxes",
                Class::Command => "commands",
                Class::Other | Class::Tenant => "requests",
            };
            let message = format!("{whose} has reached its limit of {limit} {what} per minute");
            Failure::new(ErrorCode::RateLimited, message)
                .about("limit", limit.get())
                .retry_after(wait)
        };
        match bucket.check_n(count) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(until)) => {
                let wait = until.wait_time_from(self.clock.now());
                Err(refused(wait.as_secs() as u32 + 1))
            }
            // The count is larger than a full bucket.
            Err(_) => Err(refused(60)),
        }
    }
}
