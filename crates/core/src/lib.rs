//! The vocabulary of all other crates: tenants, ids, names, tree paths, timestamps,
//! sandbox states and error codes.
//!
//! Pure: depends on no other Elevo crate, does no I/O, reads no clock and no
//! environment. Contains only values that several crates share, with their
//! validation; behaviour belongs in the crates above.

mod error_code;
mod id;
mod name;
mod path;
mod sandbox;
mod tenant;
mod time;

pub use error_code::{ErrorCode, Retry, errors_json, errors_page};
pub use id::{
    AgentId, ID_BYTES, Id, InvalidId, KeyId, ProjectId, ReviewId, SandboxId, WebhookId,
    WorkspaceId, id_text, is_id_text,
};
pub use name::{InvalidName, MAX_NAME_BYTES, Name, RESERVED_NAME};
pub use path::{InvalidPath, MAX_PATH_BYTES, TreePath};
pub use sandbox::SandboxState;
pub use tenant::TenantId;
pub use time::Timestamp;
