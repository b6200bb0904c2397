/// Limits of one sandbox on resources that the whole machine shares: the
/// connection table, the bandwidth of the network, the disks. 0 means no limit.
///
/// Unlike a limit of a [`ContainerSpec`](crate::ContainerSpec), one that the
/// kernel or the engine cannot enforce is left out with a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Open connections of all protocols: a UDP datagram to another address or
    /// port counts until its entry in the kernel expires.
    pub connections: u32,
    /// New connections per second, after a burst of [`Self::BURST`] seconds'
    /// worth.
    pub connections_per_second: u32,
    /// MiB per second that are sent, and the same for receiving.
    pub network_mib: u32,
    /// MiB per second that are read from a disk, and the same for writing.
    pub disk_mib: u32,
    /// Reads from a disk per second, and the same for writes.
    pub disk_operations: u32,
}

impl HostLimits {
    /// A sandbox that was idle may open the connections of this many seconds at
    /// once.
    pub const BURST: u32 = 10;

    /// No limits.
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
