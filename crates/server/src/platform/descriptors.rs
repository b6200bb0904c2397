//! Limits of file descriptors. If a store has no free descriptor while it
//! writes its tables, it must be reopened. So client connections get only a
//! part of the descriptors that the system allows.

use anyhow::ensure;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Minimum descriptors of a server.
const LEAST: u64 = 256;
/// Maximum descriptors requested from the system.
const MOST: u64 = 1 << 20;

/// Raises the limit of descriptors as far as allowed. Returns the limit.
pub(crate) fn raise() -> anyhow::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(MOST).min(MOST);
    let current = limit.current.unwrap_or(MOST);
    let raised = Rlimit {
        current: Some(hard),
        ..limit
    };
    // If the limit cannot be raised, the current one applies.
    let count = match current < hard && setrlimit(Resource::Nofile, raised).is_ok() {
        true => hard,
        false => current,
    };
    ensure!(
        count >= LEAST,
        "{count} open files are too few; allow at least {LEAST} (`ulimit -n`, or LimitNOFILE of systemd)"
    );
    Ok(count)
}

/// Returns the share of `count` descriptors for the tables of the store.
pub(crate) fn for_store(count: u64, wanted: u16) -> u16 {
    wanted.min(u16::try_from(count / 4).unwrap_or(u16::MAX))
}

/// Returns the share of `count` descriptors for client connections.
pub(crate) fn for_connections(count: u64, wanted: u32) -> u32 {
    wanted.min(u32::try_from(count / 4).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_divided_and_many_are_not_needed() {
        assert_eq!(for_store(256, 512), 64);
        assert_eq!(for_store(1 << 20, 512), 512);
        assert_eq!(for_connections(256, 10_000), 64);
        assert_eq!(for_connections(1 << 20, 10_000), 10_000);
    }
}
