//! For any patterns, the policy follows its rules.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::policy::rules(data));
