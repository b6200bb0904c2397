/// Limits of one sandbox on resources that the whole machine shares: the
/// connection table, the bandwidth of the network, the disks. 0 means no limit.
///
/// If the kernel or the engine cannot enforce one of these limits, the sandbox
/// runs without it and a warning is logged. A limit of a
/// [`ContainerSpec`](crate::ContainerSpec) would be rejected instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Maximum open connections of all protocols. A UDP datagram to a new
    /// address or port counts as a connection until its entry in the kernel
    /// expires.
    pub connections: u32,
    /// Maximum new connections per second. After an idle time, a sandbox may
    /// open the connections of [`Self::BURST`] seconds at once.
    pub connections_per_second: u32,
    /// Maximum MiB per second that the sandbox sends; the same limit applies to
    /// MiB received.
    pub network_mib: u32,
    /// Maximum MiB per second that the sandbox reads from a disk; the same
    /// limit applies to MiB written.
    pub disk_mib: u32,
    /// Maximum reads per second from a disk; the same limit applies to writes.
    pub disk_operations: u32,
}

impl HostLimits {
    /// Number of seconds for which an idle sandbox saves up new connections,
    /// which it may then open at once.
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
