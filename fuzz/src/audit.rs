//! Lines of the audit log.

use elevo_audit::{MAX_LINE_BYTES, check_line};

/// Reads consecutive lines: each is a record without the fields of the chain, or is rejected. A
/// valid line with a flipped bit is not valid.
pub fn lines(data: &[u8]) {
    let mut prev = [0; 32];
    for line in data.split(|byte| *byte == b'\n') {
        let Ok((read, is_right)) = check_line(line, &prev) else {
            continue;
        };
        assert!(line.len() < MAX_LINE_BYTES);
        for name in ["n", "prev", "hash"] {
            assert!(!read.record.contains_key(name));
        }
        if is_right {
            let mut other = line.to_vec();
            other[line.len() / 2] ^= 1;
            assert!(!check_line(&other, &prev).is_ok_and(|(_, is_right)| is_right));
        }
        prev = read.head.hash;
    }
}
