//! Options that commands of several nouns share.

pub(crate) mod merge;
pub(crate) mod network;
pub(crate) mod place;
pub(crate) mod policy;
pub(crate) mod retention;
pub(crate) mod server_settings;
pub(crate) mod snapshot;
pub(crate) mod sync;
pub(crate) mod target;
