use std::fmt;

/// The owner of objects, snapshots and keys. Tenants share nothing, not even
/// deduplicated objects, so every call into a store names a tenant.
///
/// The catalog chooses the sixteen bytes; a store that the command line uses
/// directly has [`TenantId::LOCAL`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId([u8; 16]);

impl TenantId {
    /// The only tenant of a store that no server manages.
    pub const LOCAL: Self = Self([0; 16]);

    /// Creates an id from its bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the sixteen bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenantId({self})")
    }
}
