//! What agents may do with which paths of a project, and how what they did is
//! merged.
//!
//! Depends on `elevo-core`. Pure: reads no file, no clock and no environment.
//! Never says yes to what no rule allows.
