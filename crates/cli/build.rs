//! Puts the workspace agent into the program. The variable `ELEVO_AGENT_INSIDE`
//! names its binary, which `scripts/agent` builds; without the variable the
//! program contains none.

#![allow(
    clippy::disallowed_methods,
    reason = "Cargo passes values in the environment"
)]

use std::path::PathBuf;

fn main() {
    const VARIABLE: &str = "ELEVO_AGENT_INSIDE";
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let bytes = match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => {
            let path = PathBuf::from(path);
            println!("cargo::rerun-if-changed={}", path.display());
            std::fs::read(&path).unwrap_or_else(|error| {
                panic!("{VARIABLE}: cannot read {}: {error}", path.display())
            })
        }
        None => Vec::new(),
    };
    let directory = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let into = directory.expect("Cargo sets OUT_DIR").join("agent");
    std::fs::write(into, bytes).expect("OUT_DIR is writable");
}
