//! Hides the names of sandboxes from each other.
//!
//! On a user-defined network, Docker answers DNS queries at 127.0.0.11 in every
//! container, including queries for the names and addresses of other containers
//! on the network. All sandboxes of an installation are on one network,
//! although they may belong to different tenants. Docker has no option to
//! disable its resolver. So a container gets the machine's resolvers in its
//! `resolv.conf`, and rules in its network namespace drop packets to Docker's
//! resolver.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::firewall;
use crate::error::Result;

/// The address of Docker's resolver.
const DOCKERS: &str = "127.0.0.11/32";
/// Maximum number of resolvers that the C library uses.
const MOST: usize = 3;

/// The network namespace of a container.
#[derive(Debug)]
pub(super) struct Namespace(File);

impl Namespace {
    /// Opens the network namespace of a process.
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/ns/net")).map(Self)
    }

    /// Drops all packets to Docker's resolver in this namespace.
    pub(super) async fn block_docker_resolver(&self) -> Result<()> {
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd());
        let rules = format!("*filter\n-I OUTPUT 1 -d {DOCKERS} -j DROP\nCOMMIT\n");
        firewall::restore_in(&path, rules).await
    }
}

/// Writes these resolvers instead of Docker's to a `resolv.conf`. The file
/// keeps its inode, because the container has it mounted.
pub(super) fn write_resolvers(path: &Path, resolvers: &[IpAddr]) -> io::Result<()> {
    let lines = usable(resolvers).map(|address| format!("nameserver {address}\n"));
    let text = lines.collect::<String>() + "options ndots:0\n";
    fs::write(path, text)
}

/// Returns whether a container can reach any of these resolvers.
pub(super) fn has_reachable_resolver(resolvers: &[IpAddr]) -> bool {
    usable(resolvers).next().is_some()
}

/// Returns the resolvers that a container can reach; its network has no IPv6.
fn usable(resolvers: &[IpAddr]) -> impl Iterator<Item = &IpAddr> {
    let reachable = |address: &&IpAddr| address.is_ipv4() && !address.is_loopback();
    resolvers.iter().filter(reachable).take(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_given_resolvers_that_it_can_reach() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("resolv.conf");
        let resolvers = ["fd00::1", "127.0.0.1", "10.0.0.2", "10.0.0.3"];
        let resolvers = resolvers.map(|address| address.parse().unwrap());
        assert!(has_reachable_resolver(&resolvers) && !has_reachable_resolver(&resolvers[..2]));
        write_resolvers(&path, &resolvers).unwrap();
        let expected = "nameserver 10.0.0.2\nnameserver 10.0.0.3\noptions ndots:0\n";
        assert_eq!(fs::read_to_string(path).unwrap(), expected);
    }
}
