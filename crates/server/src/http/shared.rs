//! The state that every handler and layer receives.

use std::sync::Arc;

use crate::app::App;
use crate::http::limits::RateLimits;
use crate::http::ports::pool::Pool;
use crate::http::route_rules::RouteRules;

/// The state that every handler receives.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) app: Arc<App>,
    pub(crate) rates: Arc<RateLimits>,
    pub(super) rules: &'static RouteRules,
    /// Connections to programs in sandboxes.
    pub(super) ports: Arc<Pool>,
}
