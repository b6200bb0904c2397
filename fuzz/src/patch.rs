//! Patches that clients send for a project.

#[allow(dead_code, reason = "the server uses more of it")]
#[path = "../../crates/server/src/app/projects/changes/patch/reader.rs"]
mod reader;

use bytes::Bytes;
use diffy::DiffOptions;
use elevo_core::TreePath;
use reader::{Edit, EditKind};

/// Parses the bytes before the last NUL as a patch, and applies it to the bytes after it. The patch
/// may name only writable files, and its result is not larger than both inputs.
///
/// Then, if both are text, takes them as versions of a file: their diff turns one into the other,
/// or is rejected.
pub fn patch(data: &[u8]) {
    let mut parts = data.rsplitn(2, |byte| *byte == 0);
    let (old, patch) = (parts.next(), parts.next());
    let (old, patch) = (old.unwrap_or_default(), patch.unwrap_or_default());
    let edits = reader::read(&Bytes::copy_from_slice(patch));
    for edit in edits.iter().flatten() {
        named(edit);
        if let Ok(new) = reader::patched(old, &edit.hunks) {
            assert!(new.len() <= old.len() + patch.len());
        }
    }
    if let (Ok(old), Ok(new)) = (str::from_utf8(old), str::from_utf8(patch)) {
        difference(old, new);
    }
}

fn difference(old: &str, new: &str) {
    let mut options = DiffOptions::new();
    options.set_original_filename("a/f");
    options.set_modified_filename("b/f");
    let between = options.create_patch(old, new).to_string();
    let edits = reader::read(&Bytes::from(between));
    if let Ok([edit]) = edits.as_deref()
        && let Ok(made) = reader::patched(old.as_bytes(), &edit.hunks)
    {
        assert_eq!(made, new.as_bytes());
    }
}

fn named(edit: &Edit) {
    let mut paths = vec![edit.path()];
    match &edit.kind {
        EditKind::Rename { from, .. } | EditKind::Copy { from, .. } => paths.push(from),
        EditKind::Create(_) | EditKind::Remove(_) | EditKind::Modify(_) => {}
    }
    let is_git = |path: &TreePath| path.names().any(|name| name.eq_ignore_ascii_case(b".git"));
    assert!(paths.iter().all(|path| !path.is_root() && !is_git(path)));
}
