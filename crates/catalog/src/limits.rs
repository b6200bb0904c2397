//! The maximum sizes and numbers of the parts of records. They are the same for
//! every implementation.

/// Maximum bytes of an id, name, scope or tag.
pub const MAX_NAME_BYTES: usize = 255;
/// Maximum bytes of any other text: an image, a container, a description, a
/// setting.
pub const MAX_TEXT_BYTES: usize = 4096;
/// Maximum bytes of the message of a snapshot.
pub const MAX_MESSAGE_BYTES: usize = 10_000;
/// Maximum number of scopes of a key, and of tags of a template.
pub const MAX_WORDS: usize = 64;
/// Maximum bytes of a reason; a longer one is truncated.
pub const MAX_REASON_BYTES: usize = 4096;
/// Maximum bytes of the specification of a sandbox, as JSON.
pub const MAX_SPEC_BYTES: usize = 256 << 10;
/// Maximum number of pairs in the metadata of a sandbox.
pub const MAX_METADATA: usize = 64;
/// Maximum bytes of a value in the metadata of a sandbox.
pub const MAX_METADATA_VALUE_BYTES: usize = 512;
/// Maximum bytes of a response that is stored for a repeated request.
pub const MAX_BODY_BYTES: usize = 64 << 10;
/// Maximum number of records that one call lists.
pub const MAX_PAGE: u32 = 1000;
/// Maximum number of sandboxes that one call adds.
pub const MAX_BATCH: usize = 1000;
/// Maximum number of records that are listed without pages: tenants, templates,
/// and agents and keys of a tenant. Also the maximum number of tags of a project.
pub const MAX_LISTED: u32 = 100_000;
/// Maximum number of webhooks of a tenant.
pub const MAX_WEBHOOKS: u32 = 20;
/// Maximum bytes of the data of an event, as JSON.
pub(crate) const MAX_EVENT_BYTES: usize = 64 << 10;
/// Maximum bytes of a policy, as JSON.
pub const MAX_POLICY_BYTES: usize = 1 << 20;
/// Maximum bytes of a workspace's sync settings, as JSON.
pub const MAX_SYNC_BYTES: usize = 4096;
/// Maximum bytes of the counts of a step, as JSON.
pub const MAX_COUNTS_BYTES: usize = 4096;
/// Maximum bytes of the detail or the resolution of a review, as JSON.
pub const MAX_DETAIL_BYTES: usize = 16 << 10;
/// Maximum number of steps of a landing.
pub const MAX_STEPS: usize = 64;
/// Maximum number of paths that all steps of a landing change together.
pub const MAX_CHANGES: usize = 100_000;
/// Maximum number of reviews that all steps of a landing open and change
/// together.
pub const MAX_REVIEWS: usize = 10_000;
/// Maximum number of unsettled conflicts of a workspace.
pub const MAX_UNSETTLED: usize = 10_000;
