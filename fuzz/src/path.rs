//! Paths of trees from requests, archives and patches.

use elevo_core::{MAX_NAME_BYTES, MAX_PATH_BYTES, Name, TreePath};

/// Reads two paths, separated by a NUL. An accepted path leads only downwards, and equals the join
/// of its names.
pub fn path(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let mut next = || TreePath::new(parts.next().unwrap_or_default());
    let (one, other) = (next(), next());
    let Ok(one) = one else {
        return;
    };
    let bytes = one.as_bytes();
    assert!(bytes.len() <= MAX_PATH_BYTES);
    let mut joined = TreePath::root();
    for name in one.names() {
        Name::check(&name).expect("a path has names only");
        assert!(name.len() <= MAX_NAME_BYTES && !matches!(&name[..], b"" | b"." | b".."));
        let parent = joined;
        joined = parent.join(&name).expect("a part is no longer");
        assert_eq!(joined.split_last(), Some((parent.clone(), name)));
        assert!(one.starts_with(&joined) && parent < joined);
    }
    assert_eq!(joined, one);
    assert_eq!(one.is_root(), bytes.is_empty());
    let Ok(other) = other else {
        return;
    };
    assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
    assert_eq!(one == other, one.cmp(&other).is_eq());
    if other.starts_with(&one) {
        assert!(one <= other, "a directory comes before what is in it");
    }
}
