//! Any log of workspaces reads as it would be written, or the error names a line.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_workspace::read_any_registry(data));
