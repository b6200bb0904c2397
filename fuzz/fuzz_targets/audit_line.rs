//! Any line of the audit log is a valid record or is rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::audit::lines(data));
