//! For any message of an agent, the server keeps no more of it than its limits, or closes the
//! connection.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_agent_link::receive_any_messages(data));
