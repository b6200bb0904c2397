//! How often a key may ask.

use std::num::NonZeroU32;
use std::sync::Arc;

use elevo_core::ErrorCode;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;

use crate::app::Principal;
use crate::failure::{Failure, Result};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// Sandboxes made.
    Create,
    /// Commands run.
    Command,
    /// Everything else.
    Other,
    /// Everything that the keys of a tenant do.
    Tenant,
}

/// One bucket for each key and class; those not used for long are forgotten,
/// which fills them up.
#[derive(Debug)]
pub(crate) struct RateLimits {
    buckets: Cache<(String, Class, u32), Arc<DefaultDirectRateLimiter>>,
    clock: DefaultClock,
    /// Turns to look for a key that the connection has not shown before.
    pub(crate) strangers: Semaphore,
}

/// Of the catalog's readers, as many look for keys of strangers at a time.
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
    /// Takes some from the bucket, or says when they are there again.
    pub(crate) fn take(&self, who: &Principal, class: Class, count: u32) -> Result<()> {
        let of_key = match class {
            Class::Create => who.limits.creates_per_minute,
            Class::Command => who.limits.commands_per_minute,
            Class::Other | Class::Tenant => who.limits.requests_per_minute,
        };
        self.take_from(who.key.clone(), class, of_key, count, "this key")?;
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
            let message = format!("{whose} may do this {limit} times a minute");
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
            // More than a full bucket has.
            Err(_) => Err(refused(60)),
        }
    }
}
