//! Files and links that theirs created, changed or removed.

use elevo_core::TreePath;
use elevo_objects::{Content, Entry, Mode};
use elevo_policy::{Access, Doing, Refusal, Strategy};

use super::directories::TAKE;
use super::{Conflict, ConflictKind, Landed, Merge, Overruled, Suggestion, Three, is_directory};
use crate::driver::Driver;
use crate::error::Result;

impl Merge<'_> {
    /// Merges a path at which neither the base nor theirs has a directory.
    pub(super) async fn leaf(&mut self, path: TreePath, three: Three) -> Result<()> {
        if let Err(refusal) = self.check(&path, &three) {
            let is_gone = three.ours.is_none() && three.theirs.is_none();
            if is_gone && refusal.access != Access::None {
                return self.same(&path, &three).await;
            }
            self.refuse(path, three.theirs.as_ref(), refusal);
            return Ok(());
        }
        let is_unsettled = self.rules.unsettled.contains(&path);
        if !is_unsettled && self.follow_rename(&path, &three).await? {
            return Ok(());
        }
        self.settle(path, three).await
    }

    pub(super) fn check(&self, path: &TreePath, three: &Three) -> std::result::Result<(), Refusal> {
        self.rules
            .check(path, three.base.as_ref(), three.theirs.as_ref())
    }

    pub(super) async fn settle(&mut self, path: TreePath, three: Three) -> Result<()> {
        if three.ours == three.theirs && !self.counts_twice(&path, &three) {
            return self.same(&path, &three).await;
        }
        if self.rules.strategy(&path) == Strategy::Review {
            self.hold(path, three, ConflictKind::Protected);
            return Ok(());
        }
        if three.theirs.is_some() && three.ours.is_none() && self.is_blocked(&path, &three).await? {
            return Ok(());
        }
        if self.rules.unsettled.contains(&path) {
            let (strategy, kind) = (self.rules.strategy(&path), kind_of(&three));
            return self.whole(path, three, strategy, kind).await;
        }
        if three.ours == three.base {
            return self.land(path, &three, TAKE).await;
        }
        self.both_changed(path, three).await
    }

    /// Whether a change of theirs counts even if ours has the same change, as
    /// it does for the CRDT driver.
    pub(super) fn counts_twice(&self, path: &TreePath, three: &Three) -> bool {
        let driver = self.driver(path, self.rules.strategy(path));
        driver.is_some_and(Driver::counts_twice)
            && matches!(
                (&three.base, &three.theirs),
                (Some(Entry::File { .. }), Some(Entry::File { .. }))
            )
            && three.base != three.theirs
    }

    async fn both_changed(&mut self, path: TreePath, three: Three) -> Result<()> {
        let strategy = self.rules.strategy(&path);
        match (&three.ours, &three.theirs) {
            // The file that theirs removed is already gone; a directory has its
            // name now.
            (Some(Entry::Directory { .. }), None) => self.same(&path, &three).await,
            (Some(Entry::Directory { .. }), Some(_)) => {
                self.hold(path, three, ConflictKind::FileAgainstDirectory);
                Ok(())
            }
            (Some(_), Some(_))
                if three.base.is_none() && self.rules.view.access(&path) == Access::Append =>
            {
                self.make_room(path, three).await
            }
            (Some(Entry::File { .. }), Some(Entry::File { .. })) => {
                self.files(path, three, strategy).await
            }
            (None, _) => {
                self.whole(path, three, strategy, ConflictKind::RemovedByUs)
                    .await
            }
            (_, None) => {
                self.whole(path, three, strategy, ConflictKind::RemovedByThem)
                    .await
            }
            _ if three.base.is_none() => {
                self.whole(path, three, strategy, ConflictKind::BothAdded)
                    .await
            }
            _ => self.whole(path, three, strategy, ConflictKind::Kind).await,
        }
    }

    /// Resolves a conflict that cannot be merged by content.
    pub(super) async fn whole(
        &mut self,
        path: TreePath,
        three: Three,
        strategy: Strategy,
        kind: ConflictKind,
    ) -> Result<()> {
        let crdt = self
            .driver(&path, strategy)
            .is_some_and(Driver::counts_twice);
        match (strategy, kind) {
            (Strategy::LastWriter, _) => self.land(path, &three, LAST_WRITER).await,
            (Strategy::Priority, _) => self.by_priority(path, three, Some(kind)).await,
            // A CRDT file that one side changed and the other removed is kept.
            (_, ConflictKind::RemovedByUs) if crdt => self.land(path, &three, "crdt").await,
            (_, ConflictKind::RemovedByThem) if crdt => {
                self.out.same += 1;
                self.agree(&path, None).await
            }
            _ => {
                self.hold(path, three, kind);
                Ok(())
            }
        }
    }

    /// Takes the side with the higher priority. If neither side has priority,
    /// the change is a conflict of the kind `otherwise`, or theirs wins if
    /// `otherwise` is `None`.
    pub(super) async fn by_priority(
        &mut self,
        path: TreePath,
        three: Three,
        otherwise: Option<ConflictKind>,
    ) -> Result<()> {
        match (self.rules.precedence.theirs_first(&path).await?, otherwise) {
            (Some(true), _) => self.land(path, &three, "priority").await,
            (Some(false), _) => {
                self.overrule(&path, &three);
                self.agree(&path, three.theirs.as_ref()).await
            }
            (None, Some(kind)) => {
                self.hold(path, three, kind);
                Ok(())
            }
            (None, None) => self.land(path, &three, LAST_WRITER).await,
        }
    }

    /// Records that theirs lost against ours, at least where the two conflict.
    pub(super) fn overrule(&mut self, path: &TreePath, three: &Three) {
        self.out.overruled.push(Overruled {
            path: path.clone(),
            ours: three.ours.clone(),
            theirs: three.theirs.clone(),
        });
    }

    /// Keeps the entries of both sides, theirs under another name. Used if both
    /// sides created the same name, and their agent may only add files.
    async fn make_room(&mut self, path: TreePath, three: Three) -> Result<()> {
        let Some(name) = self.free_name(&path).await? else {
            self.hold(path, three, ConflictKind::BothAdded);
            return Ok(());
        };
        self.set(&name, three.theirs.clone()).await?;
        self.agree(&path, three.theirs.as_ref()).await?;
        self.out.landed.push(Landed {
            path: name,
            from: Some(path),
            before: None,
            after: three.theirs,
            entries: 1,
            algorithm: "renamed",
        });
        Ok(())
    }

    /// A free name next to `path` that theirs may create.
    async fn free_name(&self, path: &TreePath) -> Result<Option<TreePath>> {
        for number in 2..1000 {
            let Some(name) = numbered(path, number) else {
                return Ok(None);
            };
            if self.rules.view.check(&name, Doing::Create).is_ok()
                && self.rules.strategy(&name) != Strategy::Review
                && self.out.tree.stat(&name).await?.is_none()
                && self.theirs.stat(&name).await?.is_none()
            {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Leaves ours unchanged, and records a conflict that needs a decision.
    pub(super) fn hold(&mut self, path: TreePath, three: Three, kind: ConflictKind) {
        let (suggestion, reason) = suggestion(kind, &three);
        self.out.conflicts.push(Conflict {
            path,
            from: None,
            kind,
            base: three.base,
            ours: three.ours,
            theirs: three.theirs,
            algorithm: "none",
            hunks: Vec::new(),
            suggestion,
            reason,
        });
    }
}

/// Returns the kind of a conflict without looking at the base.
fn kind_of(three: &Three) -> ConflictKind {
    match (&three.ours, &three.theirs) {
        (None, _) => ConflictKind::RemovedByUs,
        (_, None) => ConflictKind::RemovedByThem,
        (Some(Entry::Directory { .. }), _) => ConflictKind::FileAgainstDirectory,
        (Some(Entry::File { .. }), Some(Entry::File { .. })) => ConflictKind::Content,
        _ => ConflictKind::Kind,
    }
}

const LAST_WRITER: &str = "last-writer";

fn suggestion(kind: ConflictKind, three: &Three) -> (Suggestion, &'static str) {
    match kind {
        ConflictKind::RemovedByUs => (Suggestion::Theirs, "the change may still be needed"),
        ConflictKind::RemovedByThem => (Suggestion::Ours, "the change may still be needed"),
        ConflictKind::FileAgainstDirectory if is_directory(&three.ours) => {
            (Suggestion::Ours, "a directory holds more than a file")
        }
        ConflictKind::FileAgainstDirectory if is_directory(&three.theirs) => {
            (Suggestion::Theirs, "a directory holds more than a file")
        }
        ConflictKind::Protected => (Suggestion::Theirs, "it is the only change"),
        _ => (Suggestion::Theirs, "it is the later one"),
    }
}

pub(super) fn file(entry: &Option<Entry>) -> Option<(Content, Mode)> {
    match entry {
        Some(Entry::File { mode, content }) => Some((*content, *mode)),
        _ => None,
    }
}

/// Merges each permission bit by itself: if both sides changed a bit, they
/// changed it to the same value. Without a base, reading and writing need the
/// permission of both sides, executing that of one.
pub(super) fn merged_mode(base: Option<Mode>, ours: Mode, theirs: Mode) -> Mode {
    let (ours, theirs) = (ours.bits(), theirs.bits());
    let open = match base {
        Some(base) => !base.bits(),
        None => 0o111,
    };
    Mode::from_bits((ours & theirs) | ((ours ^ theirs) & open))
}

/// `a/report.md` as `a/report-2.md`.
fn numbered(path: &TreePath, number: u32) -> Option<TreePath> {
    let whole = path.as_bytes();
    let start = whole
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    let name = &whole[start..];
    // A name that begins with its only dot has no extension.
    let dot = name
        .iter()
        .rposition(|byte| *byte == b'.')
        .filter(|at| *at > 0);
    let (stem, extension) = name.split_at(dot.unwrap_or(name.len()));
    let number = format!("-{number}");
    let parts = [&whole[..start], stem, number.as_bytes(), extension];
    TreePath::new(parts.concat()).ok()
}
