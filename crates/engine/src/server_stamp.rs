/// The server that uses a store. Every store keeps one, but not among its objects.
///
/// A store with a stamp gets its roots from the catalog of that server, so a
/// collection that does not read the catalog would delete objects in use. The
/// generation distinguishes an older catalog from the newest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStamp {
    /// The id of its installation: one word of letters and digits.
    pub installation: String,
    /// The newest generation of its catalog that this store knows of.
    pub generation: u64,
}
