//! Leases: one holder at a time, and tokens that grow with each change of the holder.

use super::{Action, Operation};

/// A lease that was granted.
struct Grant {
    began: u64,
    ended: u64,
    session: u64,
    token: u64,
    /// Until then, the session surely holds the lease.
    until: u64,
}

pub(super) fn check(operations: &[Operation]) -> Vec<String> {
    let releases = operations.iter();
    let releases: Vec<_> = releases
        .filter(|one| matches!(one.action, Action::Release { .. }))
        .collect();
    let mut grants: Vec<_> = operations
        .iter()
        .filter_map(|one| grant(one, &releases))
        .collect();
    grants.sort_unstable_by_key(|grant| grant.ended);
    let mut found = Vec::new();
    for (index, earlier) in grants.iter().enumerate() {
        for later in &grants[index + 1..] {
            let is_same = earlier.session == later.session;
            if earlier.token == later.token && !is_same {
                let token = earlier.token;
                found.push(format!("two sessions have the token {token}"));
            }
            if earlier.ended < later.began && earlier.token > later.token {
                let (one, other) = (earlier.token, later.token);
                found.push(format!("the token {other} came after {one}"));
            }
            let is_held = earlier.ended < later.began && later.ended < earlier.until;
            if is_held && !is_same {
                let (one, other) = (earlier.session, later.session);
                found.push(format!("session {other} got the lease that {one} held"));
            }
        }
    }
    found
}

fn grant(operation: &Operation, releases: &[&Operation]) -> Option<Grant> {
    let Action::Take {
        session,
        token,
        nanoseconds,
    } = operation.action
    else {
        return None;
    };
    let releases = releases.iter().filter(|other| {
        matches!(other.action, Action::Release { session: by, token: of }
            if by == session && of == token && other.began >= operation.ended)
    });
    let released = releases.map(|release| release.began).min();
    // The catalog counts from a moment after the beginning of the call.
    let expires = operation.began + nanoseconds;
    Some(Grant {
        began: operation.began,
        ended: operation.ended,
        session,
        token,
        until: expires.min(released.unwrap_or(u64::MAX)),
    })
}
