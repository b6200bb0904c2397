//! Rate limits of keys and tenants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use elevo_core::ErrorCode;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::app::access::principal::Principal;
use crate::failure::{Failure, Result};
use crate::platform::clock;

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

impl Class {
    /// Name of the policy in the headers of responses.
    const fn policy(self) -> &'static str {
        match self {
            Self::Create => "creates",
            Self::Command => "commands",
            Self::Other => "requests",
            Self::Tenant => "tenant",
        }
    }

    /// The counted requests, and the field and the setting of their limit.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Create => ("new sandboxes", "createsPerMinute", "RATE_CREATES"),
            Self::Command => ("commands", "commandsPerMinute", "RATE_COMMANDS"),
            Self::Other => ("requests", "requestsPerMinute", "RATE_REQUESTS"),
            Self::Tenant => ("requests", "requestsPerMinute", "RATE_TENANT"),
        }
    }
}

/// The time in which an empty bucket fills up.
const WINDOW: Duration = Duration::from_secs(60);

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    limit: u32,
    /// The tokens at a time.
    state: Mutex<(Instant, f64)>,
}

impl Bucket {
    fn full(limit: u32, now: Instant) -> Self {
        Self {
            limit,
            state: Mutex::new((now, limit.into())),
        }
    }

    /// Tokens that the bucket gains per second.
    fn rate(&self) -> f64 {
        f64::from(self.limit) / WINDOW.as_secs_f64()
    }

    /// Takes tokens if there are enough of them, and returns the tokens that are
    /// left. Otherwise returns the seconds until there are enough, too.
    fn take(&self, count: u32, now: Instant) -> (f64, Option<f64>) {
        let mut state = self.state.lock();
        let (at, tokens) = *state;
        let gained = now.saturating_duration_since(at).as_secs_f64() * self.rate();
        let tokens = (tokens + gained).min(self.limit.into());
        let missing = f64::from(count.min(self.limit)) - tokens;
        // A count above the limit never succeeds.
        let is_enough = missing <= 0.0 && count <= self.limit;
        let left = match is_enough {
            true => tokens - f64::from(count),
            false => tokens,
        };
        *state = (at.max(now), left);
        let wait = match count <= self.limit {
            true => missing / self.rate(),
            false => WINDOW.as_secs_f64(),
        };
        (left, (!is_enough).then_some(wait))
    }
}

/// The state of one limit after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quota {
    class: Class,
    limit: u32,
    left: u32,
    /// Seconds until nothing of the limit is used.
    reset: u32,
}

impl Quota {
    fn new(class: Class, bucket: &Bucket, left: f64) -> Self {
        let used = f64::from(bucket.limit) - left;
        Self {
            class,
            limit: bucket.limit,
            left: left as u32,
            reset: (used / bucket.rate()).ceil() as u32,
        }
    }
}

/// The state of all limits that a request counts towards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas(Vec<Quota>);

impl Quotas {
    /// Returns the requests that all limits still allow; `None` without limits.
    pub(super) fn left(&self) -> Option<u32> {
        self.0.iter().map(|quota| quota.left).min()
    }

    /// Returns the headers `RateLimit-Policy` and `RateLimit` of
    /// draft-ietf-httpapi-ratelimit-headers; none without limits.
    pub(super) fn headers(&self) -> HeaderMap {
        let window = WINDOW.as_secs();
        let policy = |quota: &Quota| {
            let (name, limit) = (quota.class.policy(), quota.limit);
            format!("\"{name}\";q={limit};w={window}")
        };
        let state = |quota: &Quota| {
            let (name, left, reset) = (quota.class.policy(), quota.left, quota.reset);
            format!("\"{name}\";r={left};t={reset}")
        };
        let mut headers = HeaderMap::new();
        let mut add = |name, form: &dyn Fn(&Quota) -> String| {
            let items: Vec<_> = self.0.iter().map(form).collect();
            if let Ok(value) = HeaderValue::from_str(&items.join(", "))
                && !items.is_empty()
            {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        add("ratelimit-policy", &policy);
        add("ratelimit", &state);
        headers
    }
}

/// One token bucket for each key and class. A bucket that was not used for long
/// is evicted from the cache, and starts full again.
#[derive(Debug)]
pub(crate) struct RateLimits {
    buckets: Cache<(String, Class, u32), Arc<Bucket>>,
    /// Permits to look up a key that the connection has not used before.
    pub(crate) strangers: Semaphore,
}

/// Maximum number of catalog readers that look up unknown keys at a time.
const STRANGERS: usize = 2;

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            buckets: Cache::new(10_000),
            strangers: Semaphore::new(STRANGERS),
        }
    }
}

impl RateLimits {
    /// Takes tokens from the buckets of the key and the tenant, or fails with
    /// the time until they are available. Returns the state of both limits in
    /// either case.
    pub(crate) fn take(&self, who: &Principal, class: Class, count: u32) -> (Quotas, Result<()>) {
        let of_key = match class {
            Class::Create => who.limits.creates_per_minute,
            Class::Command => who.limits.commands_per_minute,
            Class::Other | Class::Tenant => who.limits.requests_per_minute,
        };
        let of_tenant = who.tenant_limits.requests_per_minute;
        let limits = [
            (who.key.to_string(), class, of_key),
            (who.tenant.to_string(), Class::Tenant, of_tenant),
        ];
        let mut quotas = Quotas::default();
        let mut result = Ok(());
        for (owner, class, limit) in limits {
            let Some(limit) = limit.filter(|limit| *limit > 0) else {
                continue;
            };
            let bucket = self.bucket(owner, class, limit);
            // A request that the key is denied does not count for the tenant.
            let count = if result.is_ok() { count } else { 0 };
            let (left, wait) = bucket.take(count, clock::instant());
            quotas.0.push(Quota::new(class, &bucket, left));
            if let Some(wait) = wait {
                result = Err(exceeded(class, limit, wait));
            }
        }
        (quotas, result)
    }

    /// Returns the state of the limits without taking tokens.
    pub(crate) fn look(&self, who: &Principal, class: Class) -> Quotas {
        self.take(who, class, 0).0
    }

    fn bucket(&self, owner: String, class: Class, limit: u32) -> Arc<Bucket> {
        let make = || -> std::result::Result<_, std::convert::Infallible> {
            Ok(Arc::new(Bucket::full(limit, clock::instant())))
        };
        let Ok(bucket) = self
            .buckets
            .get_or_insert_with(&(owner, class, limit), make);
        bucket
    }
}

/// Returns the failure of a request beyond a limit.
fn exceeded(class: Class, limit: u32, wait: f64) -> Failure {
    let (counted, field, setting) = class.names();
    let seconds = wait as u32 + 1;
    let (owner, raise) = match class {
        Class::Tenant => (
            "tenant",
            "ask the operator to raise the limit of the tenant",
        ),
        _ => ("key", "use a key with a higher limit"),
    };
    let message = format!("this {owner} has reached its limit of {limit} {counted} per minute");
    Failure::new(ErrorCode::RateLimited, message)
        .about("resource", field)
        .about("limit", limit)
        .remediation(format!(
            "Wait {seconds} seconds, then retry; or {raise} (`{field}`). The setting {setting} of \
             the server is the default."
        ))
        .retry_after(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_refills_over_a_minute() {
        let start = clock::instant();
        let at = |seconds| start + Duration::from_secs(seconds);
        let bucket = Bucket::full(60, start);
        assert_eq!(bucket.take(1, at(0)), (59.0, None));
        assert_eq!(bucket.take(0, at(0)), (59.0, None));
        assert_eq!(bucket.take(59, at(0)), (0.0, None));
        assert_eq!(bucket.take(2, at(1)), (1.0, Some(1.0)));
        assert_eq!(bucket.take(2, at(2)), (0.0, None));
        // Time that goes backwards neither adds nor removes tokens.
        assert_eq!(bucket.take(0, at(0)), (0.0, None));
        assert_eq!(bucket.take(0, at(3)), (1.0, None));
        assert_eq!(bucket.take(60, at(1000)), (0.0, None));
        assert_eq!(bucket.take(61, at(2000)), (60.0, Some(60.0)));
    }

    #[test]
    fn headers_name_every_limit_and_its_state() {
        let start = clock::instant();
        let key = Bucket::full(60, start);
        let (left, _) = key.take(31, start);
        let tenant = Bucket::full(1000, start);
        let quotas = Quotas(vec![
            Quota::new(Class::Create, &key, left),
            Quota::new(Class::Tenant, &tenant, 1000.0),
        ]);
        let headers = quotas.headers();
        let policy = "\"creates\";q=60;w=60, \"tenant\";q=1000;w=60";
        assert_eq!(headers["ratelimit-policy"], policy);
        let state = "\"creates\";r=29;t=31, \"tenant\";r=1000;t=0";
        assert_eq!(headers["ratelimit"], state);
        assert_eq!(quotas.left(), Some(29));
        assert!(Quotas::default().headers().is_empty());
        assert_eq!(Quotas::default().left(), None);
    }
}
