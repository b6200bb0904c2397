//! Errors of policies and ignore files.

use std::fmt;

use serde::Serialize;

use crate::ignores::{MAX_IGNORE_BYTES, MAX_IGNORE_PATTERNS, MAX_IGNORE_TOTAL_BYTES};

/// Maximum number of reported problems of a policy.
pub const MAX_PROBLEMS: usize = 100;

/// An invalid policy, with all its problems.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    /// At least one and at most [`MAX_PROBLEMS`], in the order of the policy.
    pub problems: Vec<Problem>,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the policy is not valid: ")?;
        for (index, problem) in self.problems.iter().enumerate() {
            let between = if index == 0 { "" } else { "; " };
            write!(f, "{between}{problem}")?;
        }
        Ok(())
    }
}

/// A problem of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Place in the policy, such as `rules[3].pattern`.
    pub at: String,
    /// Description of the problem and of its remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// Reasons to reject a `.gitignore`. The patterns of other files stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    /// The file is too large.
    #[error("a `.gitignore` cannot be larger than {MAX_IGNORE_BYTES} bytes; this one has {0}")]
    TooLarge(usize),
    /// All files together have too many patterns or bytes.
    #[error(
        "`.gitignore` files cannot have more than {MAX_IGNORE_PATTERNS} patterns or \
         {MAX_IGNORE_TOTAL_BYTES} bytes together"
    )]
    TooMany,
}
