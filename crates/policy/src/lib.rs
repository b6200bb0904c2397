//! Policies: what agents may do with the paths of a project, which paths are
//! never merged, and how conflicts are settled.
//!
//! Depends on `elevo-core`. Pure: reads no file, no clock and no environment.
//! Never allows an action that no rule and no default allows.
//!
//! # The rule that applies
//!
//! A rule selects paths by a glob: `*` and `?` stay within a name, `**` crosses
//! names, `[a-z]` is one byte, `{a,b}` stands for two patterns. It is matched
//! against the whole path, as bytes. A pattern that matches a directory covers
//! everything below it.
//!
//! Of all rules that cover a path, the one with the most specific pattern
//! applies:
//!
//! 1. the pattern with more leading names without a wildcard;
//! 2. then the one with more bytes that are not wildcards;
//! 3. then a pattern without any wildcard;
//! 4. then a rule that names the agent, before one for a role of the agent,
//!    before one for everyone;
//! 5. then the stricter access, or the more careful strategy.
//!
//! The order of the rules never matters. Access and strategy are looked up
//! separately: a rule without `access` is ignored for access. Where no rule
//! applies, the policy's `default` does.

mod bind;
mod compile;
mod error;
mod glob;
mod ignores;
mod local;
mod pattern;
mod policy;
mod view;

pub use bind::{Agents, Bound};
pub use compile::{
    Compiled, MAX_LOCAL_PATTERNS, MAX_MEMBERS, MAX_NAME_BYTES, MAX_NAMED, MAX_ROLES, MAX_RULES,
    MAX_SPELLINGS,
};
pub use error::{IgnoreError, MAX_PROBLEMS, PolicyError, Problem};
pub use ignores::{Ignores, MAX_IGNORE_BYTES, MAX_IGNORE_PATTERNS, MAX_IGNORE_TOTAL_BYTES, Within};
pub use local::Local;
pub use pattern::MAX_PATTERN_BYTES;
pub use policy::{Access, Member, Policy, Rule, Strategy};
pub use view::{Doing, Refusal, View};
