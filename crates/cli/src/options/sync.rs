//! When a workspace of a project is refreshed and merged.

use clap::ValueEnum;
use elevo_api as api;

/// When a workspace is refreshed and merged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Sync {
    /// Refreshed and merged only on request
    Manual,
    /// Refreshed about every 45 seconds; merged only on request
    Lazy,
    /// Refreshed and merged about every 7 seconds
    Regular,
    /// Refreshed when the project changes, merged soon after a write
    Event,
}

impl From<Sync> for api::Sync {
    fn from(sync: Sync) -> Self {
        let mode = match sync {
            Sync::Manual => api::SyncMode::Manual,
            Sync::Lazy => api::SyncMode::Lazy,
            Sync::Regular => api::SyncMode::Regular,
            Sync::Event => api::SyncMode::Event,
        };
        Self {
            mode,
            seconds: None,
        }
    }
}
