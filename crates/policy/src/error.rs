//! Why a policy or an ignore file is not taken.

use std::fmt;

use serde::Serialize;

use crate::ignores::{MAX_IGNORE_BYTES, MAX_IGNORE_PATTERNS, MAX_IGNORE_TOTAL_BYTES};

/// How many problems of a policy are named at most.
pub const MAX_PROBLEMS: usize = 100;

/// A policy that cannot be used, with all that is wrong with it.
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

/// One thing that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where, such as `rules[3].pattern`.
    pub at: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// Why a `.gitignore` is not taken. What others said stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    /// The file is too large.
    #[error("a `.gitignore` cannot be larger than {MAX_IGNORE_BYTES} bytes; this one has {0}")]
    TooLarge(usize),
    /// All files together say too much.
    #[error(
        "`.gitignore` files cannot have more than {MAX_IGNORE_PATTERNS} patterns or \
         {MAX_IGNORE_TOTAL_BYTES} bytes together"
    )]
    TooMany,
}
