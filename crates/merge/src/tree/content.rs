//! Merges the content of files that both sides changed.

use bytes::Bytes;
use elevo_core::TreePath;
use elevo_engine::Attributes;
use elevo_objects::{Entry, Mode};
use elevo_policy::Strategy;

use super::files::{file, merged_mode};
use super::{Conflict, ConflictKind, Merge, Suggestion, Three};
use crate::driver::{Conflicted, Driver, Merged, Versions, Winner};
use crate::error::Result;

impl Merge<'_> {
    pub(super) async fn files(
        &mut self,
        path: TreePath,
        three: Three,
        strategy: Strategy,
    ) -> Result<()> {
        let (Some((ours, our_mode)), Some((theirs, their_mode))) =
            (file(&three.ours), file(&three.theirs))
        else {
            return Ok(());
        };
        let base = file(&three.base);
        let mode = merged_mode(base.map(|(_, mode)| mode), our_mode, their_mode);
        let content = match base.map(|(content, _)| content) {
            _ if ours == theirs && !self.counts_twice(&path, &three) => Some(ours),
            Some(base) if base == ours => Some(theirs),
            Some(base) if base == theirs => Some(ours),
            _ => None,
        };
        match content {
            Some(content) if content == ours => self.land_mode(path, three, mode).await,
            Some(content) => {
                let entry = Entry::File { mode, content };
                self.agree(&path, three.theirs.as_ref()).await?;
                self.set(&path, Some(entry.clone())).await?;
                self.landed(path, three.ours, Some(entry), "mode");
                Ok(())
            }
            None => self.by_content(path, three, strategy, mode).await,
        }
    }

    /// Changes only the permissions of ours. Its content may not be stored yet,
    /// and stays where it is.
    async fn land_mode(&mut self, path: TreePath, three: Three, mode: Mode) -> Result<()> {
        self.agree(&path, three.theirs.as_ref()).await?;
        if file(&three.ours).map(|(_, mode)| mode) == Some(mode) {
            self.out.same += 1;
            return Ok(());
        }
        self.out.tree.set_mode(&path, mode).await?;
        let after = self.out.tree.entry(&path).await?;
        self.landed(path, three.ours, after, "mode");
        Ok(())
    }

    async fn by_content(
        &mut self,
        path: TreePath,
        three: Three,
        strategy: Strategy,
        mode: Mode,
    ) -> Result<()> {
        let sides = [&three.base, &three.ours, &three.theirs];
        let sizes = sides
            .into_iter()
            .filter_map(|entry| Some(file(entry)?.0.size()));
        if sizes.max() > Some(self.limits.file_bytes) {
            let kind = ConflictKind::TooLarge;
            return self.whole(path, three, strategy, kind).await;
        }
        let base = match &three.base {
            Some(entry @ Entry::File { .. }) => Some(self.repository.bytes(entry).await?),
            _ => None,
        };
        let ours = self.ours.read(&path).await?;
        let theirs = match &three.theirs {
            Some(entry) => self.repository.bytes(entry).await?,
            None => Bytes::new(),
        };
        let versions = Versions {
            base: base.as_deref(),
            ours: &ours,
            theirs: &theirs,
        };
        match self.merge_by_driver(&path, strategy, &versions) {
            (algorithm, Merged::Clean(bytes)) => {
                self.land_bytes(path, three, (mode, bytes), &ours, algorithm)
                    .await
            }
            (algorithm, Merged::Conflict(conflicted)) => {
                let Some(winner) = self.winner(&path, strategy).await? else {
                    self.hold_content(path, three, algorithm, conflicted);
                    return Ok(());
                };
                let bytes = self.merge_by_driver_for(&path, strategy, &versions, winner);
                if winner == Winner::Ours {
                    self.overrule(&path, &three);
                }
                self.land_bytes(path, three, (mode, bytes), &ours, strategy.as_str())
                    .await
            }
            (_, Merged::NotMine) => match strategy {
                Strategy::LastWriter | Strategy::Priority => {
                    let kind = ConflictKind::Content;
                    self.whole(path, three, strategy, kind).await
                }
                _ => {
                    let otherwise = self.rules.careful.then_some(ConflictKind::Content);
                    self.by_priority(path, three, otherwise).await
                }
            },
        }
    }

    /// The side that wins where a driver found a conflict; `None` if the
    /// conflict needs a decision.
    async fn winner(&self, path: &TreePath, strategy: Strategy) -> Result<Option<Winner>> {
        let theirs_first = match strategy {
            Strategy::LastWriter => Some(true),
            Strategy::Priority => self.rules.precedence.theirs_first(path).await?,
            _ => None,
        };
        Ok(theirs_first.map(|theirs| if theirs { Winner::Theirs } else { Winner::Ours }))
    }

    async fn land_bytes(
        &mut self,
        path: TreePath,
        three: Three,
        (mode, bytes): (Mode, Vec<u8>),
        ours: &[u8],
        algorithm: &'static str,
    ) -> Result<()> {
        self.agree(&path, three.theirs.as_ref()).await?;
        let our_mode = file(&three.ours).map(|(_, mode)| mode);
        if bytes == ours && our_mode == Some(mode) {
            self.out.same += 1;
            return Ok(());
        }
        let attributes = Attributes {
            mode: Some(mode),
            modified: None,
        };
        self.out.tree.write(&path, bytes.into(), attributes).await?;
        let after = self.out.tree.entry(&path).await?;
        self.landed(path, three.ours, after, algorithm);
        Ok(())
    }

    /// Tries the drivers in turn, until one can parse the versions.
    fn merge_by_driver(
        &self,
        path: &TreePath,
        strategy: Strategy,
        versions: &Versions<'_>,
    ) -> (&'static str, Merged) {
        for driver in self.in_turn(path, strategy) {
            match driver.merge(versions) {
                Merged::NotMine => {}
                merged => return (driver.name(), merged),
            }
        }
        ("", Merged::NotMine)
    }

    /// Like `merge_by_driver`, but with the winner's version where the sides conflict.
    fn merge_by_driver_for(
        &self,
        path: &TreePath,
        strategy: Strategy,
        versions: &Versions<'_>,
        winner: Winner,
    ) -> Vec<u8> {
        let mut drivers = self.in_turn(path, strategy);
        let merged = drivers.find_map(|driver| driver.merge_for(versions, winner));
        merged.unwrap_or_else(|| match winner {
            Winner::Ours => versions.ours.to_vec(),
            Winner::Theirs => versions.theirs.to_vec(),
        })
    }

    fn in_turn(&self, path: &TreePath, strategy: Strategy) -> impl Iterator<Item = &dyn Driver> {
        let first = self.driver(path, strategy);
        let text = self.drivers.named("text").map(|driver| &**driver);
        [first, text].into_iter().flatten()
    }

    pub(super) fn driver(&self, path: &TreePath, strategy: Strategy) -> Option<&dyn Driver> {
        let named = |name| self.drivers.named(name);
        let driver = match strategy {
            Strategy::Auto | Strategy::LastWriter | Strategy::Priority => {
                let (_, name) = path.split_last()?;
                self.drivers.for_file(name.as_bytes())
            }
            Strategy::Text => named("text"),
            Strategy::Json => named("json"),
            Strategy::Yaml => named("yaml"),
            Strategy::Toml => named("toml"),
            Strategy::Crdt => named("crdt"),
            Strategy::Review => None,
        };
        driver.map(|driver| &**driver)
    }

    /// Leaves ours unchanged, and records the conflicting places.
    fn hold_content(
        &mut self,
        path: TreePath,
        three: Three,
        algorithm: &'static str,
        conflicted: Conflicted,
    ) {
        let kind = match three.base {
            None => ConflictKind::BothAdded,
            Some(_) => ConflictKind::Content,
        };
        self.out.conflicts.push(Conflict {
            path,
            from: None,
            kind,
            base: three.base,
            ours: three.ours,
            theirs: three.theirs,
            algorithm,
            hunks: conflicted.hunks,
            suggestion: Suggestion::Content(conflicted.suggestion),
            reason: conflicted.reason,
        });
    }
}
