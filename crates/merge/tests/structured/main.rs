//! The structured drivers.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(missing_docs, reason = "tests")]

mod crdt;
mod crdt_laws;
mod documents;
mod fuzz;
mod json;
mod json_layout;
mod json_properties;
mod nearly;
mod random;
mod samples;
mod support;
mod toml;
mod yaml;
