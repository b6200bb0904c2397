//! The workspace agent that this program contains.

/// Returns the binary of the workspace agent, or `None` if the program was built
/// without it (`crates/cli/build.rs`).
pub(crate) fn agent_inside() -> Option<&'static [u8]> {
    let bytes: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent"));
    (!bytes.is_empty()).then_some(bytes)
}
