//! Parses patches in the format of `git diff` and applies them exactly: a hunk
//! that does not match at its stated position makes the patch invalid.

use bytes::Bytes;
use diffy::Line;
use diffy::patch_set::{FileMode, FileOperation, FilePatch, ParseOptions, PatchKind, PatchSet};
use elevo_core::TreePath;

/// Maximum bytes of a `diff --git` line, which has two file names.
const HEADER_BYTES: usize = 10_000;

/// Maximum spaces in a `diff --git` line. The second name may begin after each
/// space, so the parser tries all of them.
const HEADER_SPACES: usize = 256;

/// Maximum bytes of an invalid name that an error quotes.
const SHOWN_BYTES: usize = 200;

/// The reason why a patch is rejected.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The patch is not valid.
    Patch(String),
    /// A name in the patch is not valid.
    Name {
        /// The name, cut to [`SHOWN_BYTES`].
        name: Vec<u8>,
        why: String,
    },
    /// The patch changes a file in an unsupported way.
    File(TreePath, &'static str),
    /// The patch has a binary change of this file.
    Binary(TreePath),
    /// A hunk, counted from 0, does not match the file.
    Misfit(TreePath, usize),
}

type Result<T, E = Refused> = std::result::Result<T, E>;

/// The changes of a patch to one file.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) kind: EditKind,
    /// The new file mode, if the patch sets one.
    pub(crate) mode: Option<FileMode>,
    pub(crate) hunks: Vec<Hunk>,
}

/// The kind of an edit, with its paths.
#[derive(Debug)]
pub(crate) enum EditKind {
    Create(TreePath),
    Remove(TreePath),
    Modify(TreePath),
    Rename { from: TreePath, to: TreePath },
    Copy { from: TreePath, to: TreePath },
}

/// A hunk: consecutive lines of a file with their replacements.
#[derive(Debug)]
pub(crate) struct Hunk {
    /// Number of lines of the old file before the hunk.
    before: usize,
    lines: Vec<Change>,
}

/// A line of a hunk, with its newline.
#[derive(Debug)]
enum Change {
    Keep(Bytes),
    Remove(Bytes),
    Insert(Bytes),
}

impl Edit {
    /// Returns the path that a failure of this edit names.
    pub(crate) fn path(&self) -> &TreePath {
        match &self.kind {
            EditKind::Create(path) | EditKind::Remove(path) | EditKind::Modify(path) => path,
            EditKind::Rename { to, .. } | EditKind::Copy { to, .. } => to,
        }
    }
}

/// Parses a patch.
pub(crate) fn read(patch: &Bytes) -> Result<Vec<Edit>> {
    let headers = check_lines(patch)?;
    let options = match headers.is_git {
        true => ParseOptions::gitdiff(),
        false => ParseOptions::unidiff(),
    };
    let mut edits = Vec::new();
    for file in PatchSet::parse_bytes(patch, options) {
        let file = file.map_err(|error| refused(format!("this is not a valid patch: {error}")))?;
        edits.push(edit(patch, &file)?);
    }
    // The parser ignores text between files. A hunk in such text must not be
    // lost silently.
    if edits.iter().map(|edit| edit.hunks.len()).sum::<usize>() != headers.hunks {
        return Err(refused("a hunk does not follow the header of a file"));
    }
    Ok(edits)
}

/// Results of a first pass over the lines of a patch.
struct Headers {
    is_git: bool,
    hunks: usize,
}

fn check_lines(patch: &[u8]) -> Result<Headers> {
    let mut headers = Headers {
        is_git: false,
        hunks: 0,
    };
    for line in patch.split(|byte| *byte == b'\n') {
        headers.hunks += usize::from(line.starts_with(b"@@ "));
        if line.starts_with(b"diff --git ") {
            headers.is_git = true;
            let spaces = line.iter().filter(|byte| **byte == b' ').count();
            if line.len() > HEADER_BYTES || spaces > HEADER_SPACES {
                return Err(refused("a `diff --git` line is too long"));
            }
        }
    }
    Ok(headers)
}

fn edit(patch: &Bytes, file: &FilePatch<'_, [u8]>) -> Result<Edit> {
    let kind = kind(file.operation())?;
    let mut edit = Edit {
        kind,
        mode: file.new_mode().copied(),
        hunks: Vec::new(),
    };
    let modes = [file.old_mode(), file.new_mode()];
    if modes.contains(&Some(&FileMode::Gitlink)) {
        return Err(Refused::File(edit.path().clone(), "it is a submodule"));
    }
    let PatchKind::Text(text) = file.patch() else {
        return Err(Refused::Binary(edit.path().clone()));
    };
    for (number, found) in text.hunks().iter().enumerate() {
        let range = found.old_range();
        // In the format, an empty range has the number of the line before it.
        let before = match range.is_empty() {
            true => Some(range.start()),
            false => range.start().checked_sub(1),
        };
        let before = before.ok_or_else(|| Refused::Misfit(edit.path().clone(), number))?;
        let keep = |line: &[u8]| patch.slice_ref(line);
        let lines = found.lines().iter().map(|line| match line {
            Line::Context(line) => Change::Keep(keep(line)),
            Line::Delete(line) => Change::Remove(keep(line)),
            Line::Insert(line) => Change::Insert(keep(line)),
        });
        let lines = lines.collect();
        edit.hunks.push(Hunk { before, lines });
    }
    let is_nothing = edit.hunks.is_empty() && edit.mode.is_none();
    match matches!(edit.kind, EditKind::Modify(_)) && is_nothing {
        true => Err(Refused::File(
            edit.path().clone(),
            "the patch does not change it",
        )),
        false => Ok(edit),
    }
}

fn kind(operation: &FileOperation<'_, [u8]>) -> Result<EditKind> {
    Ok(match operation {
        FileOperation::Create(path) => EditKind::Create(below(path)?),
        FileOperation::Delete(path) => EditKind::Remove(below(path)?),
        FileOperation::Modify { original, modified } => {
            let (original, modified) = (below(original)?, below(modified)?);
            if original != modified {
                return Err(Refused::File(
                    modified,
                    "the patch has two names for it but is not a rename",
                ));
            }
            EditKind::Modify(modified)
        }
        FileOperation::Rename { from, to } => EditKind::Rename {
            from: checked(from)?,
            to: checked(to)?,
        },
        FileOperation::Copy { from, to } => EditKind::Copy {
            from: checked(from)?,
            to: checked(to)?,
        },
    })
}

/// Parses a path without its first component, which is `a` or `b` in a git diff.
fn below(path: &[u8]) -> Result<TreePath> {
    let slash = path.iter().position(|byte| *byte == b'/');
    match slash {
        Some(slash) => checked(&path[slash + 1..]),
        None => Err(invalid(path, "it has no `a/` or `b/` prefix")),
    }
}

/// Parses a path that a change may write to.
pub(crate) fn checked(path: &[u8]) -> Result<TreePath> {
    let found = TreePath::new(path).map_err(|error| invalid(path, &error.to_string()))?;
    if found.is_root() {
        return Err(invalid(path, "the path must name a file"));
    }
    let is_git = found.names().any(|name| name.eq_ignore_ascii_case(b".git"));
    match is_git {
        true => Err(invalid(path, "`.git` is never part of a project")),
        false => Ok(found),
    }
}

fn invalid(name: &[u8], why: &str) -> Refused {
    Refused::Name {
        name: name[..name.len().min(SHOWN_BYTES)].to_vec(),
        why: why.to_owned(),
    }
}

fn refused(why: impl Into<String>) -> Refused {
    Refused::Patch(why.into())
}

/// Returns the content of a file after the hunks. Fails with the index of the
/// first hunk that does not match.
pub(crate) fn patched(old: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>, usize> {
    let mut rest = old.split_inclusive(|byte| *byte == b'\n');
    let (mut new, mut at) = (Vec::with_capacity(old.len()), 0);
    for (number, hunk) in hunks.iter().enumerate() {
        let skipped = hunk.before.checked_sub(at).ok_or(number)?;
        for _ in 0..skipped {
            add(&mut new, rest.next().ok_or(number)?).ok_or(number)?;
        }
        at = hunk.before;
        for change in &hunk.lines {
            match change {
                Change::Insert(line) => add(&mut new, line).ok_or(number)?,
                Change::Keep(line) | Change::Remove(line) => {
                    at += 1;
                    let found = rest.next().filter(|found| found == line);
                    let found = found.ok_or(number)?;
                    if matches!(change, Change::Keep(_)) {
                        add(&mut new, found).ok_or(number)?;
                    }
                }
            }
        }
    }
    for line in rest {
        add(&mut new, line).ok_or(hunks.len().saturating_sub(1))?;
    }
    Ok(new)
}

/// Appends a line. Fails if the line before has no newline: only the last line
/// of a file may lack one.
fn add(new: &mut Vec<u8>, line: &[u8]) -> Option<()> {
    if new.last().is_some_and(|last| *last != b'\n') {
        return None;
    }
    new.extend_from_slice(line);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(old: &str, patch: &str) -> Option<String> {
        let edits = read(&Bytes::copy_from_slice(patch.as_bytes())).ok()?;
        let new = patched(old.as_bytes(), &edits[0].hunks).ok()?;
        Some(String::from_utf8(new).unwrap())
    }

    fn of(hunks: &str) -> String {
        format!("diff --git a/f b/f\n--- a/f\n+++ b/f\n{hunks}")
    }

    #[test]
    fn a_hunk_fits_where_it_says_or_nowhere() {
        let old = "a\nb\nc\nd\n";
        let patch = of("@@ -2,2 +2,2 @@\n b\n-c\n+C\n");
        assert_eq!(apply(old, &patch).unwrap(), "a\nb\nC\nd\n");
        assert_eq!(apply("a\na\nb\nc\n", &patch), None, "a line further down");
        assert_eq!(apply("a\nb\n", &patch), None, "beyond the end");
        assert_eq!(
            apply("a\r\nb\r\nc\r\n", &patch),
            None,
            "other ends of lines"
        );
        let insert = of("@@ -1,0 +2 @@\n+x\n");
        assert_eq!(apply(old, &insert).unwrap(), "a\nx\nb\nc\nd\n");
        let crlf = of("@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n");
        assert_eq!(apply("a\r\nb\r\n", &crlf).unwrap(), "a\r\nB\r\n");
    }

    #[test]
    fn the_end_of_the_last_line_counts() {
        let end = "\\ No newline at end of file\n";
        let patch = of(&format!("@@ -1 +1 @@\n-a\n{end}+a\n"));
        assert_eq!(apply("a", &patch).unwrap(), "a\n");
        assert_eq!(apply("a\n", &patch), None);
        let patch = of(&format!("@@ -1 +1,2 @@\n a\n+b\n{end}"));
        assert_eq!(apply("a\n", &patch).unwrap(), "a\nb");
        let glued = of(&format!("@@ -1 +1 @@\n-a\n+A\n{end}"));
        assert_eq!(apply("a\nb\n", &glued), None, "in the midst of a file");
    }

    #[test]
    fn hostile_patches_are_refused() {
        let huge = usize::MAX;
        let far = of("@@ -4000000000,1 +1 @@\n-a\n+b\n");
        assert_eq!(apply("a\n", &far), None);
        for hunks in [
            format!("@@ -{huge},{huge} +1 @@\n-a\n+b\n"),
            "@@ -1,4000000000 +1,4000000000 @@\n-a\n+b\n".into(),
            "@@ -0,1 +1 @@\n-a\n+b\n".into(),
            "@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -2,2 +2,2 @@\n-b\n+X\n c\n".into(),
            "@@ -3 +3 @@\n-c\n+C\n@@ -1 +1 @@\n-a\n+A\n".into(),
            "@@ -1 +1 @@\n-a\n+A\nwords\n@@ -2 +2 @@\n-b\n+B\n".into(),
        ] {
            assert_eq!(apply("a\nb\nc\n", &of(&hunks)), None, "{hunks}");
        }
        let long = format!("diff --git {}\n", " ".repeat(1 << 20));
        assert!(read(&long.into()).is_err());
        for name in [
            "../x",
            "/etc/x",
            "x/../../y",
            ".git/config",
            "a/.GIT/x",
            "x\\000y",
        ] {
            let patch = format!(
                "diff --git \"a/{name}\" \"b/{name}\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/{name}\"\n@@ -0,0 +1 @@\n+x\n"
            );
            assert!(read(&patch.into()).is_err(), "{name}");
            let patch = format!(
                "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to \"{name}\"\n"
            );
            assert!(read(&patch.into()).is_err(), "{name}");
        }
    }
}
