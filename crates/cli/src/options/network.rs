//! The network access of sandboxes.

use clap::ValueEnum;
use elevo_api as api;

/// Network access of a sandbox.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Network {
    /// No network
    None,
    /// Public addresses only: no other sandbox, not the host, no private network
    Internet,
}

impl Network {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Internet => "internet",
        }
    }
}

impl From<Network> for api::NetworkMode {
    fn from(network: Network) -> Self {
        match network {
            Network::None => Self::None,
            Network::Internet => Self::Internet,
        }
    }
}
