/// Limits of one sandbox for things that a machine has one of for all: the table
/// of connections, the network's bandwidth, the disks. 0 is without a limit.
///
/// Unlike those of a [`ContainerSpec`](crate::ContainerSpec), a limit that the
/// kernel or the engine cannot keep is left out with a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Connections that are open at a time, whatever their protocol: a UDP
    /// datagram to another address or port counts until the kernel forgets it.
    pub connections: u32,
    /// New connections a second, after the first [`Self::BURST`] seconds' worth.
    pub connections_per_second: u32,
    /// MiB a second that are sent, and as many that are received.
    pub network_mib: u32,
    /// MiB a second that are read from a disk, and as many that are written to it.
    pub disk_mib: u32,
    /// Reads from a disk a second, and as many writes.
    pub disk_operations: u32,
}

impl HostLimits {
    /// New connections may come at once if there were none for so many seconds.
    pub const BURST: u32 = 10;

    /// Without any limit.
    pub const NONE: Self = Self {
        connections: 0,
        connections_per_second: 0,
        network_mib: 0,
        disk_mib: 0,
        disk_operations: 0,
    };
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            connections: 512,
            connections_per_second: 50,
            network_mib: 64,
            disk_mib: 200,
            disk_operations: 5_000,
        }
    }
}
