//! Prints changes as names, statistics or patches.

use elevo_core::TreePath;
use elevo_engine::{
    Change, ChangeKind, ChangeStat, ChangeStatTotals, DEFAULT_MAX_TEXT_BYTES, EntryKind,
    LineBudget, PatchOptions, Rename, Repository, patch, rename_patch,
};
use elevo_objects::{Content, Entry};
use serde::Serialize;

use crate::local::wait::wait;
use crate::output::json::{self, EntryShape, PathShape};
use crate::output::patch::print_patch;
use crate::output::{ADDED, Output, PLACE, REMOVED, format};

/// The form in which changes are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChangeForm {
    Names,
    Stat,
    Patch { context: u32 },
}

/// An entry in the list of differences: a change or a rename.
pub(crate) enum ChangeItem {
    Change(Change),
    Rename(Rename),
}

impl ChangeItem {
    /// The path in the second snapshot, or in the first for a removal.
    pub(crate) fn path(&self) -> &TreePath {
        match self {
            Self::Change(change) => &change.path,
            Self::Rename(rename) => &rename.to,
        }
    }
}

/// Prints changes one by one.
pub(crate) struct ChangePrinter<'a> {
    output: &'a mut Output,
    repository: &'a Repository,
    form: ChangeForm,
    budget: LineBudget,
    totals: ChangeStatTotals,
    renamed: u64,
    any: bool,
}

impl<'a> ChangePrinter<'a> {
    pub(crate) fn new(
        output: &'a mut Output,
        repository: &'a Repository,
        form: ChangeForm,
    ) -> Self {
        Self {
            output,
            repository,
            form,
            budget: LineBudget::per_diff(),
            totals: ChangeStatTotals::default(),
            renamed: 0,
            any: false,
        }
    }

    pub(crate) fn print(&mut self, item: ChangeItem) -> anyhow::Result<()> {
        self.any = true;
        match self.form {
            ChangeForm::Names => self.print_name(&item),
            ChangeForm::Stat => self.print_stat(item),
            ChangeForm::Patch { context } => self.print_patch(&item, context),
        }
    }

    /// Prints the totals. Returns whether there were changes.
    pub(crate) fn finish(self) -> anyhow::Result<bool> {
        if let ChangeForm::Stat = self.form {
            if self.output.is_json() {
                self.output
                    .value(&TotalsShape::new(&self.totals, self.renamed))?;
            } else {
                self.output.line(summary(&self.totals, self.renamed))?;
            }
        }
        Ok(self.any)
    }

    fn print_name(&mut self, item: &ChangeItem) -> anyhow::Result<()> {
        if self.output.is_json() {
            return Ok(self.output.value(&ChangeShape::new(item))?);
        }
        let letter = self.letter(item);
        let line = [&letter[..], b"\t", &name(item)].concat();
        Ok(self.output.line(line)?)
    }

    fn letter(&self, item: &ChangeItem) -> Vec<u8> {
        let (letter, style) = match item {
            ChangeItem::Rename(_) => ("R", PLACE),
            ChangeItem::Change(change) => match change.kind {
                ChangeKind::Added(_) => ("A", ADDED),
                ChangeKind::Removed(_) => ("D", REMOVED),
                ChangeKind::Modified { .. } => ("M", PLACE),
                ChangeKind::ModeChanged { .. } => ("P", PLACE),
                ChangeKind::TypeChanged { .. } => ("T", PLACE),
            },
        };
        self.output.styled(style, letter)
    }

    fn print_stat(&mut self, item: ChangeItem) -> anyhow::Result<()> {
        let (item, stat) = match item {
            ChangeItem::Change(change) => {
                let stat = ChangeStat::of(
                    self.repository,
                    change,
                    DEFAULT_MAX_TEXT_BYTES,
                    &mut self.budget,
                );
                let stat = wait(stat)?;
                self.totals.add(&stat);
                (ChangeItem::Change(stat.change.clone()), Some(stat))
            }
            ChangeItem::Rename(rename) => {
                self.renamed += 1;
                let bytes = size(&rename.before);
                self.totals.bytes_before += bytes;
                self.totals.bytes_after += bytes;
                (ChangeItem::Rename(rename), None)
            }
        };
        if self.output.is_json() {
            let stat = match &stat {
                Some(stat) => StatShape::new(stat),
                None => StatShape::unchanged(&item),
            };
            let shape = ChangeShape {
                stat: Some(stat),
                ..ChangeShape::new(&item)
            };
            return Ok(self.output.value(&shape)?);
        }
        let letter = self.letter(&item);
        let counts = stat.as_ref().map_or(blank(), |stat| self.counts(stat));
        let mut line = [&letter[..], b" ", &counts, b"  ", &name(&item)].concat();
        if let Some(stat) = stat.filter(ChangeStat::is_binary) {
            line.extend(sizes(&stat).as_bytes());
        }
        Ok(self.output.line(line)?)
    }

    /// Two columns: lines added and lines removed.
    fn counts(&self, stat: &ChangeStat) -> Vec<u8> {
        if !stat.text {
            let word = if stat.is_binary() { "binary" } else { "" };
            return format!("{word:>15}").into_bytes();
        }
        let column = |sign: char, count: u64| match count {
            0 => String::new(),
            count => format!("{sign}{count}"),
        };
        let added = format!("{:>7}", column('+', stat.lines_added));
        let removed = format!("{:>7}", column('-', stat.lines_removed));
        let (added, removed) = (
            self.output.styled(ADDED, added),
            self.output.styled(REMOVED, removed),
        );
        [&added[..], b" ", &removed].concat()
    }

    fn print_patch(&mut self, item: &ChangeItem, context: u32) -> anyhow::Result<()> {
        let options = PatchOptions {
            context,
            ..PatchOptions::default()
        };
        let text = match item {
            ChangeItem::Change(change) => {
                wait(patch(self.repository, change, &options, &mut self.budget))?
            }
            ChangeItem::Rename(rename) => rename_patch(rename),
        };
        if self.output.is_json() {
            let (patch, exact) = json::text(&text);
            let shape = ChangeShape {
                patch: Some(patch),
                patch_base64: exact,
                ..ChangeShape::new(item)
            };
            return Ok(self.output.value(&shape)?);
        }
        Ok(print_patch(self.output, &text)?)
    }
}

fn blank() -> Vec<u8> {
    vec![b' '; 15]
}

fn size(entry: &Entry) -> u64 {
    match entry {
        Entry::File { content, .. } => Content::size(content),
        Entry::Link(link) => link.size,
        Entry::Directory { .. } => 0,
    }
}

fn sizes(stat: &ChangeStat) -> String {
    let (before, after) = (
        format::bytes(stat.bytes_before),
        format::bytes(stat.bytes_after),
    );
    match stat.change.kind {
        ChangeKind::Added(_) => format!(" ({after})"),
        ChangeKind::Removed(_) => format!(" ({before})"),
        _ => format!(" ({before} -> {after})"),
    }
}

/// The path, with changes of mode, type or place.
fn name(item: &ChangeItem) -> Vec<u8> {
    let change = match item {
        ChangeItem::Change(change) => change,
        ChangeItem::Rename(rename) => {
            let kind = EntryKind::of(&rename.before);
            let from = format::path(rename.from.as_bytes(), kind);
            let to = format::path(rename.to.as_bytes(), kind);
            return [
                &from[..],
                b" -> ",
                &to,
                modes(&rename.before, &rename.after).as_bytes(),
            ]
            .concat();
        }
    };
    let path = |entry: &Entry| format::path(change.path.as_bytes(), EntryKind::of(entry));
    match &change.kind {
        ChangeKind::Added(entry) | ChangeKind::Removed(entry) => path(entry),
        ChangeKind::Modified { before, after } | ChangeKind::ModeChanged { before, after } => {
            [path(after), modes(before, after).into_bytes()].concat()
        }
        ChangeKind::TypeChanged { before, after } => {
            let word = |entry| format::kind(EntryKind::of(entry));
            let kinds = format!(" ({} -> {})", word(before), word(after));
            [path(after), kinds.into_bytes()].concat()
        }
    }
}

/// ` (0644 -> 0755)`, if they differ.
fn modes(before: &Entry, after: &Entry) -> String {
    let mode = |entry: &Entry| match entry {
        Entry::File { mode, .. } | Entry::Directory { mode, .. } => Some(*mode),
        Entry::Link(_) => None,
    };
    match (mode(before), mode(after)) {
        (Some(before), Some(after)) if before != after => {
            format!(" ({} -> {})", format::mode(before), format::mode(after))
        }
        _ => String::new(),
    }
}

fn summary(totals: &ChangeStatTotals, renamed: u64) -> String {
    let changes = totals.changes() + renamed;
    if changes == 0 {
        return "no changes".into();
    }
    let kinds = [
        (totals.added, "added"),
        (totals.removed, "removed"),
        (totals.modified, "modified"),
        (renamed, "renamed"),
        (totals.mode_changed, "with other permissions"),
        (totals.type_changed, "of another type"),
    ];
    let kinds: Vec<_> = kinds
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format::count(count, word, word))
        .collect();
    format!(
        "{}: {}; {} added, {}; {} -> {}",
        format::count(changes, "change", "changes"),
        kinds.join(", "),
        format::count(totals.lines_added, "line", "lines"),
        format::count(totals.lines_removed, "removed", "removed"),
        format::bytes(totals.bytes_before),
        format::bytes(totals.bytes_after),
    )
}

#[derive(Serialize)]
struct ChangeShape {
    r#type: &'static str,
    status: &'static str,
    #[serde(flatten)]
    path: PathShape,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_base64: Option<String>,
    before: Option<EntryShape>,
    after: Option<EntryShape>,
    #[serde(flatten)]
    stat: Option<StatShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_base64: Option<String>,
}

impl ChangeShape {
    fn new(item: &ChangeItem) -> Self {
        let (status, before, after) = match item {
            ChangeItem::Change(change) => {
                let status = match change.kind {
                    ChangeKind::Added(_) => "added",
                    ChangeKind::Removed(_) => "removed",
                    ChangeKind::Modified { .. } => "modified",
                    ChangeKind::ModeChanged { .. } => "mode_changed",
                    ChangeKind::TypeChanged { .. } => "type_changed",
                };
                let kind = &change.kind;
                (status, kind.before(), kind.after())
            }
            ChangeItem::Rename(rename) => ("renamed", Some(&rename.before), Some(&rename.after)),
        };
        let (from, from_base64) = match item {
            ChangeItem::Change(_) => (None, None),
            ChangeItem::Rename(rename) => {
                let (from, exact) = json::text(rename.from.as_bytes());
                (Some(from), exact)
            }
        };
        Self {
            r#type: "change",
            status,
            path: PathShape::new(item.path().as_bytes()),
            from,
            from_base64,
            before: before.map(EntryShape::of),
            after: after.map(EntryShape::of),
            stat: None,
            patch: None,
            patch_base64: None,
        }
    }
}

/// Fields that `--stat` adds to a change.
#[derive(Serialize)]
struct StatShape {
    /// Absent for a rename, whose content is not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<bool>,
    lines_added: u64,
    lines_removed: u64,
    bytes_before: u64,
    bytes_after: u64,
}

impl StatShape {
    fn new(stat: &ChangeStat) -> Self {
        Self {
            text: Some(stat.text),
            lines_added: stat.lines_added,
            lines_removed: stat.lines_removed,
            bytes_before: stat.bytes_before,
            bytes_after: stat.bytes_after,
        }
    }

    fn unchanged(item: &ChangeItem) -> Self {
        let bytes = match item {
            ChangeItem::Rename(rename) => size(&rename.before),
            ChangeItem::Change(_) => 0,
        };
        Self {
            text: None,
            lines_added: 0,
            lines_removed: 0,
            bytes_before: bytes,
            bytes_after: bytes,
        }
    }
}

/// The last line of `--stat`.
#[derive(Serialize)]
struct TotalsShape {
    r#type: &'static str,
    changes: u64,
    added: u64,
    removed: u64,
    modified: u64,
    mode_changed: u64,
    type_changed: u64,
    renamed: u64,
    binary: u64,
    lines_added: u64,
    lines_removed: u64,
    bytes_before: u64,
    bytes_after: u64,
}

impl TotalsShape {
    fn new(totals: &ChangeStatTotals, renamed: u64) -> Self {
        Self {
            r#type: "totals",
            changes: totals.changes() + renamed,
            added: totals.added,
            removed: totals.removed,
            modified: totals.modified,
            mode_changed: totals.mode_changed,
            type_changed: totals.type_changed,
            renamed,
            binary: totals.binary,
            lines_added: totals.lines_added,
            lines_removed: totals.lines_removed,
            bytes_before: totals.bytes_before,
            bytes_after: totals.bytes_after,
        }
    }
}
