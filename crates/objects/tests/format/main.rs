//! The format, seen from outside: what is written can be read, what is not
//! canonical cannot, equal contents give equal trees, and old fixtures stay
//! readable.

mod chunks;
mod document;
mod encoding;
mod fixtures;
mod forest;
mod hostile;
mod samples;
mod trees;
