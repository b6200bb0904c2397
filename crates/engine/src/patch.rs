//! Changes as patches in git's format, which `git apply` and `patch -p1`
//! accept:
//!
//! ```text
//! diff --git a/src/x b/src/x
//! old mode 100644
//! new mode 100755
//! --- a/src/x
//! +++ b/src/x
//! @@ -1,2 +1,2 @@
//!  kept
//! -removed
//! +added
//! \ No newline at end of file
//! ```
//!
//! A change of type is a removal followed by an addition. Directories have no
//! patch; binary files are named without their content.

use std::borrow::Cow;
use std::io::Write as _;
use std::ops::Range;

use elevo_core::TreePath;
use elevo_objects::Entry;

use crate::diff::{Change, ChangeKind};
use crate::error::Result;
use crate::lines::{self, Line, LineBudget, TwoTexts, Work};
use crate::renames::Rename;
use crate::repository::Repository;
use crate::text::{DEFAULT_MAX_TEXT_BYTES, Side};

/// Options of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchOptions {
    /// Unchanged lines before and after each hunk.
    pub context: u32,
    /// Files larger than this are treated as binary, which bounds memory.
    pub max_text_bytes: u64,
}

impl Default for PatchOptions {
    fn default() -> Self {
        Self {
            context: 3,
            max_text_bytes: DEFAULT_MAX_TEXT_BYTES,
        }
    }
}

/// Returns the patch of one change; empty for a directory. `budget` bounds the
/// time for all changes that share it.
pub async fn patch(
    repository: &Repository,
    change: &Change,
    options: &PatchOptions,
    budget: &mut LineBudget,
) -> Result<Vec<u8>> {
    let mut patch = Patch {
        repository,
        options,
        budget,
        path: &change.path,
        out: Vec::new(),
    };
    let (before, after) = (change.kind.before(), change.kind.after());
    if let ChangeKind::TypeChanged { .. } = change.kind {
        patch.write(before, None).await?;
        patch.write(None, after).await?;
    } else {
        patch.write(before, after).await?;
    }
    Ok(patch.out)
}

/// Returns the patch of a rename; empty for a directory.
pub fn rename_patch(rename: &Rename) -> Vec<u8> {
    let (Some(old), Some(new)) = (git_mode(&rename.before), git_mode(&rename.after)) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    put_header(&mut out, &rename.from, &rename.to);
    put_mode_change(&mut out, old, new);
    out.extend_from_slice(b"similarity index 100%");
    for (word, path) in [("from", &rename.from), ("to", &rename.to)] {
        out.extend_from_slice(b"\nrename ");
        out.extend_from_slice(word.as_bytes());
        out.push(b' ');
        out.extend_from_slice(&quoted(path.as_bytes()));
    }
    out.push(b'\n');
    out
}

/// Returns a path as git prints it: unchanged, or in double quotes with escapes
/// if it has control characters, quotes, backslashes or bytes that are not
/// UTF-8. Safe to print on a terminal.
pub fn quoted(path: &[u8]) -> Cow<'_, [u8]> {
    let plain = |c: char| !c.is_control() && !matches!(c, '"' | '\\');
    if std::str::from_utf8(path).is_ok_and(|text| text.chars().all(plain)) {
        return Cow::Borrowed(path);
    }
    let mut out = vec![b'"'];
    for part in path.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '"' | '\\' => out.extend([b'\\', c as u8]),
                '\n' => out.extend(b"\\n"),
                '\t' => out.extend(b"\\t"),
                '\r' => out.extend(b"\\r"),
                c if c.is_control() => put_octal(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        put_octal(&mut out, part.invalid());
    }
    out.push(b'"');
    Cow::Owned(out)
}

fn put_octal(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.extend(format!("\\{byte:03o}").as_bytes());
    }
}

/// Returns the mode that git would write; `None` for directories, which git
/// does not store.
fn git_mode(entry: &Entry) -> Option<u32> {
    match entry {
        Entry::File { mode, .. } => Some(0o100_000 | mode.bits()),
        Entry::Link(_) => Some(0o120_000),
        Entry::Directory { .. } => None,
    }
}

fn put_header(out: &mut Vec<u8>, from: &TreePath, to: &TreePath) {
    out.extend_from_slice(b"diff --git ");
    out.extend_from_slice(&prefixed("a/", from));
    out.push(b' ');
    out.extend_from_slice(&prefixed("b/", to));
    out.push(b'\n');
}

fn put_mode_change(out: &mut Vec<u8>, old: u32, new: u32) {
    if old != new {
        let _ = write!(out, "old mode {old:o}\nnew mode {new:o}\n");
    }
}

fn prefixed(prefix: &str, path: &TreePath) -> Vec<u8> {
    let path = [prefix.as_bytes(), path.as_bytes()].concat();
    quoted(&path).into_owned()
}

struct Patch<'a> {
    repository: &'a Repository,
    options: &'a PatchOptions,
    budget: &'a mut LineBudget,
    path: &'a TreePath,
    out: Vec<u8>,
}

impl Patch<'_> {
    async fn write(&mut self, before: Option<&Entry>, after: Option<&Entry>) -> Result<()> {
        let (old, new) = (before.and_then(git_mode), after.and_then(git_mode));
        if old.is_none() && new.is_none() {
            return Ok(());
        }
        put_header(&mut self.out, self.path, self.path);
        match (old, new) {
            (Some(old), Some(new)) => put_mode_change(&mut self.out, old, new),
            (None, Some(mode)) => self.put_line(&format!("new file mode {mode:o}")),
            (Some(mode), None) => self.put_line(&format!("deleted file mode {mode:o}")),
            (None, None) => {}
        }
        if contents_equal(before, after) {
            return Ok(());
        }
        let max = self.options.max_text_bytes;
        let before = Side::read(self.repository, before, max, self.budget).await?;
        let after = Side::read(self.repository, after, max, self.budget).await?;
        match (before.lines(), after.lines()) {
            (Some(a), Some(b)) if a != b => {
                self.put_file_name(b"--- ", "a/", old.is_some());
                self.put_file_name(b"+++ ", "b/", new.is_some());
                let (out, context) = (&mut self.out, self.options.context as usize);
                self.budget
                    .compare(a, b, |work| put_hunks(out, a, b, context, work))?;
            }
            (Some(_), Some(_)) => {}
            _ => self.put_binary(old.is_some(), new.is_some()),
        }
        Ok(())
    }

    fn put_line(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.push(b'\n');
    }

    fn file_name(&self, prefix: &str, exists: bool) -> Vec<u8> {
        if exists {
            prefixed(prefix, self.path)
        } else {
            b"/dev/null".to_vec()
        }
    }

    fn put_file_name(&mut self, marker: &[u8], prefix: &str, exists: bool) {
        let name = self.file_name(prefix, exists);
        self.out.extend_from_slice(marker);
        self.out.extend_from_slice(&name);
        // As git does: otherwise `patch` ends a name at the first space.
        if name.contains(&b' ') {
            self.out.push(b'\t');
        }
        self.out.push(b'\n');
    }

    fn put_binary(&mut self, before: bool, after: bool) {
        self.out.extend_from_slice(b"Binary files ");
        self.out.extend_from_slice(&self.file_name("a/", before));
        self.out.extend_from_slice(b" and ");
        self.out.extend_from_slice(&self.file_name("b/", after));
        self.out.extend_from_slice(b" differ\n");
    }
}

fn contents_equal(before: Option<&Entry>, after: Option<&Entry>) -> bool {
    match (before, after) {
        (Some(Entry::File { content: old, .. }), Some(Entry::File { content: new, .. })) => {
            old == new
        }
        (before, after) => before == after,
    }
}

/// Writes the hunks of a unified diff. The printer of `gix-imara-diff` is not used
/// because it accepts only UTF-8, omits the note on a missing newline, and
/// gives a wrong line number if the first change is near the start of the file.
fn put_hunks(out: &mut Vec<u8>, before: &[u8], after: &[u8], context: usize, work: &mut Work) {
    let texts = TwoTexts::new(before, after);
    let mut printer = HunkPrinter {
        texts: &texts,
        context,
        out,
    };
    let mut group: Vec<lines::Change> = Vec::new();
    for change in texts.changes(work) {
        if let Some(last) = group.last()
            && change.before.start - last.before.end > context.saturating_mul(2)
        {
            printer.put_group(&group);
            group.clear();
        }
        group.push(change);
    }
    printer.put_group(&group);
}

struct HunkPrinter<'a, 'b> {
    texts: &'a TwoTexts<'b>,
    context: usize,
    out: &'a mut Vec<u8>,
}

impl HunkPrinter<'_, '_> {
    /// Writes a hunk for changes whose contexts touch.
    fn put_group(&mut self, group: &[lines::Change]) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            return;
        };
        let lead = self.context.min(first.before.start);
        let end = self.texts.before().len();
        let trail = self.context.min(end - last.before.end);
        let old = first.before.start - lead..last.before.end + trail;
        let new = first.after.start - lead..last.after.end + trail;
        let header = format!("@@ -{} +{} @@\n", position(&old), position(&new));
        self.out.extend_from_slice(header.as_bytes());
        let mut at = old.start;
        for hunk in group {
            self.put_lines(b' ', self.texts.before(), at..hunk.before.start);
            self.put_lines(b'-', self.texts.before(), hunk.before.clone());
            self.put_lines(b'+', self.texts.after(), hunk.after.clone());
            at = hunk.before.end;
        }
        self.put_lines(b' ', self.texts.before(), at..old.end);
    }

    fn put_lines(&mut self, marker: u8, lines: &[Line], range: Range<usize>) {
        for line in &lines[range] {
            let line = self.texts.line(*line);
            self.out.push(marker);
            self.out.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                self.out
                    .extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }
}

/// Returns `start,length` with lines counted from 1. The start of an empty
/// range is the line before it.
fn position(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        length => format!("{},{length}", range.start + 1),
    }
}

#[cfg(test)]
mod tests;
