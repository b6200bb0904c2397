//! How often a key may ask.

use std::num::NonZeroU32;
use std::sync::Arc;

use elevo_core::ErrorCode;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use quick_cache::sync::Cache;

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
}

/// One bucket for each key and class; those not used for long are forgotten,
/// which fills them up.
#[derive(Debug)]
pub(crate) struct RateLimits {
    buckets: Cache<(String, Class, u32), Arc<DefaultDirectRateLimiter>>,
    clock: DefaultClock,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            buckets: Cache::new(10_000),
            clock: DefaultClock::default(),
        }
    }
}

impl RateLimits {
    /// Takes one from the bucket, or says when there is one again.
    pub(crate) fn take(&self, who: &Principal, class: Class) -> Result<()> {
        let limit = match class {
            Class::Create => who.limits.creates_per_minute,
            Class::Command => who.limits.commands_per_minute,
            Class::Other => who.limits.requests_per_minute,
        };
        let Some(limit) = limit.and_then(NonZeroU32::new) else {
            return Ok(());
        };
        let name = (who.key.clone(), class, limit.get());
        let make = || -> std::result::Result<_, std::convert::Infallible> {
            Ok(Arc::new(RateLimiter::direct(Quota::per_minute(limit))))
        };
        let Ok(bucket) = self.buckets.get_or_insert_with(&name, make);
        bucket.check().map_err(|until| {
            let wait = until.wait_time_from(self.clock.now()).as_secs() as u32 + 1;
            let message = format!("this key may do this {limit} times a minute");
            Failure::new(ErrorCode::RateLimited, message)
                .about("limit", limit.get())
                .retry_after(wait)
        })
    }
}
