//! Whatever a line of the audit log is, it is a record or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::audit::lines(data));
