//! The format from outside: encoded objects can be decoded, encodings that are
//! not canonical cannot, equal content gives equal trees, and old fixtures stay
//! readable.

mod chunks;
mod document;
mod encoding;
mod fixtures;
mod forest;
mod hostile;
mod samples;
mod trees;
