//! Whatever the log of workspaces holds, it is read as it would be written, or a line is named.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_workspace::read_any_registry(data));
