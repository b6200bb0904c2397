//! The service as a process.

fn main() {}
