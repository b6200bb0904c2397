//! Whatever the patterns of rules are, the policy answers as its rules say.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::policy::rules(data));
