//! Merges the order of keys.

use std::collections::{HashMap, HashSet};

/// The keys of both sides in one order.
#[derive(Debug)]
pub(crate) struct Order<'n> {
    /// Every key that ours or theirs has, once.
    pub(crate) names: Vec<&'n str>,
    /// Whether both sides moved existing keys to different orders. Our order is
    /// then used.
    pub(crate) disputed: bool,
}

/// Merges the order of keys. Existing keys keep their order, or take the order
/// of the side that moved them; a new key stays after the key that it was
/// inserted after. If both sides inserted keys at the same place, the keys of
/// one side stay together, and the side with the smaller first key comes first,
/// so that swapping the sides changes nothing.
pub(crate) fn merge<'n>(base: &[&'n str], ours: &[&'n str], theirs: &[&'n str]) -> Order<'n> {
    if ours == theirs {
        return Order {
            names: ours.to_vec(),
            disputed: false,
        };
    }
    let [in_base, in_ours, in_theirs] =
        [base, ours, theirs].map(|names| names.iter().copied().collect::<HashSet<_>>());
    let fixed = |name: &&'n str| {
        in_base.contains(name) && in_ours.contains(name) && in_theirs.contains(name)
    };
    let [was, our_way, their_way] =
        [base, ours, theirs].map(|names| names.iter().copied().filter(fixed).collect::<Vec<_>>());
    let disputed = our_way != was && their_way != was && our_way != their_way;
    let frame = if our_way == was { their_way } else { our_way };

    let our_runs = runs(ours, fixed);
    let their_runs = runs(theirs, fixed);
    let mut names = Vec::with_capacity(ours.len() + theirs.len());
    let mut done = HashSet::new();
    for anchor in std::iter::once(None).chain(frame.into_iter().map(Some)) {
        names.extend(anchor);
        let [one, other] =
            [&our_runs, &their_runs].map(|runs| runs.get(&anchor).map_or(&[][..], Vec::as_slice));
        let (first, second) = if other < one {
            (other, one)
        } else {
            (one, other)
        };
        names.extend(
            first
                .iter()
                .chain(second)
                .filter(|name| done.insert(**name)),
        );
    }
    Order { names, disputed }
}

/// Groups the keys that are not fixed, by the fixed key that precedes them.
fn runs<'n>(
    names: &[&'n str],
    fixed: impl Fn(&&'n str) -> bool,
) -> HashMap<Option<&'n str>, Vec<&'n str>> {
    let mut runs: HashMap<_, Vec<_>> = HashMap::new();
    let mut anchor = None;
    for name in names {
        if fixed(name) {
            anchor = Some(*name);
        } else {
            runs.entry(anchor).or_default().push(*name);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(base: &str, ours: &str, theirs: &str) -> (String, bool) {
        let [base, ours, theirs] =
            [base, ours, theirs].map(|names| names.split_whitespace().collect::<Vec<_>>());
        let order = merge(&base, &ours, &theirs);
        (order.names.join(" "), order.disputed)
    }

    #[test]
    fn new_keys_stay_in_place_for_either_order_of_the_sides() {
        for (base, ours, theirs, expected) in [
            ("a b", "a x b", "a b y", "a x b y"),
            ("a b", "a b y z", "a b x w", "a b x w y z"),
            ("a", "n a", "m a", "m n a"),
            ("", "b a", "c a", "b a c"),
            ("a b c", "c b a", "a b c d", "c d b a"),
            ("a b c", "a c", "a b c", "a b c"),
            ("a b", "a x b", "a b x", "a x b"),
        ] {
            assert_eq!(merged(base, ours, theirs), (expected.into(), false));
            assert_eq!(merged(base, theirs, ours), (expected.into(), false));
        }
        assert_eq!(merged("a b c", "c b a", "b a c"), ("c b a".into(), true));
    }
}
