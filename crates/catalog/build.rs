//! Makes Cargo notice new files in the directory of migrations: otherwise it
//! watches only the files it already knows.

#![allow(
    clippy::print_stdout,
    reason = "Cargo reads the standard output of build scripts"
)]

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
