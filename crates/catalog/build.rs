//! A new file in the directory of migrations must be noticed: only those that
//! are known are watched otherwise.

#![allow(clippy::print_stdout, reason = "this is how Cargo is told")]

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
