//! The suite every catalog must pass.
