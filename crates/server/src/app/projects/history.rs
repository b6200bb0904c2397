//! The history of a project: its log, the versions of a path, and the author of
//! each line.

use std::ops::Range;

use elevo_api as api;
use elevo_catalog::{FileVersion, VersionKind};
use elevo_core::{ErrorCode, TreePath};
use elevo_engine::{Error as EngineError, LineBudget};
use elevo_merge::carried_lines;
use elevo_objects::Entry;
use elevo_policy::View;

use crate::app::access::principal::Principal;
use crate::app::files::diff::readable;
use crate::app::files::stored::{is_directory, shows, tree_path};
use crate::app::pages::PageQuery;
use crate::app::projects::project_ref::ProjectRef;
use crate::app::projects::reading::Seen;
use crate::app::projects::{Projects, out};
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// Maximum size in bytes of a file for blame.
const BLAMED: u64 = 4 << 20;

/// Maximum rows of the catalog that are read for one response.
const LOOKED_AT: usize = 10_000;

/// Maximum versions of a file that one blame reads.
const VERSIONS: usize = 10_000;

/// Number of rows of the catalog that may still be read for one response.
/// Without this limit, a request would read a whole history in which most steps
/// are hidden from the principal.
#[derive(Debug)]
pub(crate) struct Rows(usize);

impl Rows {
    pub(crate) const fn of_one_answer() -> Self {
        Self(LOOKED_AT)
    }

    /// Subtracts rows that were read.
    pub(super) const fn look_at(&mut self, count: usize) {
        self.0 = self.0.saturating_sub(count);
    }

    /// Returns true if the response must end with the row that was read last.
    pub(crate) const fn are_used_up(&self) -> bool {
        self.0 == 0
    }
}

impl Projects {
    /// Returns the versions of a path that the principal may see, newest first.
    pub(crate) async fn history(
        &self,
        who: &Principal,
        project: &ProjectRef,
        path: &str,
        page: PageQuery,
    ) -> Result<api::VersionPage> {
        let (mut before, limit) = (page.number()?, page.limit);
        let seen = self.seen(who, project, None).await?;
        let path = tree_path(path)?;
        if !seen.shows(&path, true) && !seen.shows(&path, false) {
            return Ok(api::VersionPage {
                items: Vec::new(),
                next: None,
            });
        }
        let (mut items, mut rows) = (Vec::new(), Rows::of_one_answer());
        loop {
            let page = self.changes_at(&seen, &path, (before, limit), &mut rows);
            let page = page.await?;
            for version in &page {
                rows.look_at(1);
                before = Some(version.sequence);
                items.extend(version_out(&seen.view, version));
                if items.len() >= limit as usize || rows.are_used_up() {
                    let next = Some(version.sequence.to_string());
                    return Ok(api::VersionPage { items, next });
                }
            }
            if page.len() < limit as usize {
                return Ok(api::VersionPage { items, next: None });
            }
        }
    }

    /// Returns the step and agent that wrote each line of a file.
    pub(crate) async fn blame(
        &self,
        who: &Principal,
        project: &ProjectRef,
        path: &str,
        at: Option<&str>,
    ) -> Result<api::Blame> {
        let seen = self.seen(who, project, at).await?;
        let path = tree_path(path)?;
        let entry = seen.entry(&path).await?;
        let content = self.text_of(&seen, &entry).await?;
        let landed = self
            .catalog
            .landing_of_snapshot(seen.project.tenant, &seen.project.id, seen.snapshot)
            .await?;
        let before = Some(landed.map_or(0, |entry| entry.sequence) + 1);
        let (lines, known_since) = self.blamed(&seen, &path, content, before).await?;
        Ok(api::Blame {
            path: readable(path.as_bytes()),
            snapshot: seen.snapshot.to_string(),
            lines,
            known_since,
        })
    }

    async fn text_of(&self, seen: &Seen, entry: &Entry) -> Result<bytes::Bytes> {
        let refused = |why: &str| Failure::new(ErrorCode::InvalidRequest, why);
        match entry {
            Entry::File { content, .. } if content.size() > BLAMED => Err(refused(
                "the file has more than 4 MiB, which is too large for blame",
            )),
            Entry::File { .. } => {
                let bytes = seen.repository().bytes(entry).await?;
                match bytes.iter().take(8000).any(|byte| *byte == 0) {
                    true => Err(refused("the file is not text")),
                    false => Ok(bytes),
                }
            }
            _ => Err(refused("only files have lines")),
        }
    }

    /// Returns the step that added each line of `content`, which is the file
    /// before step `before`. Reads the versions of the file from new to old.
    /// Stops at a version whose predecessor was deleted, or when it has
    /// compared too much text. Then the remaining lines have no step, and the
    /// second result is the sequence number of the step of that version.
    async fn blamed(
        &self,
        seen: &Seen,
        path: &TreePath,
        content: bytes::Bytes,
        mut before: Option<u64>,
    ) -> Result<(Vec<api::BlamedLines>, Option<u64>)> {
        let mut path = path.clone();
        let mut content = content;
        let mut budget = LineBudget::of_one_answer();
        let count = lines(&content);
        // For each line of the newest version, its position in the version that
        // is being read; `None` once its step is found.
        let mut at: Vec<Option<u32>> = (0..count).map(Some).collect();
        let mut found: Vec<Option<FileVersion>> = vec![None; count as usize];
        for _ in 0..VERSIONS {
            if at.iter().all(Option::is_none) {
                break;
            }
            let page = self
                .catalog
                .versions_of(seen.project.tenant, &seen.project.id, &path, before, 1)
                .await?;
            let Some(version) = page.into_iter().next() else {
                break;
            };
            before = Some(version.sequence);
            let from = version.change.from.clone();
            let is_hidden = from.as_ref().is_some_and(|from| !seen.shows(from, false));
            let earlier = match &version.change.before {
                // The file was moved from a hidden path. Its lines count as
                // added by the move, because the older history is hidden.
                _ if is_hidden => None,
                Some(entry @ Entry::File { content, .. }) if content.size() <= BLAMED => {
                    match self.bytes_before(seen, &version, entry).await? {
                        Some(bytes) => Some(bytes),
                        None => return Ok((runs(&found), Some(version.sequence))),
                    }
                }
                _ => None,
            };
            let carried = match &earlier {
                Some(earlier) => match carried_lines(earlier, &content, &mut budget) {
                    Ok(carried) => carried,
                    Err(EngineError::TooMuchText) => {
                        return Ok((runs(&found), Some(version.sequence)));
                    }
                    Err(error) => return Err(error.into()),
                },
                None => vec![None; lines(&content) as usize],
            };
            for (line, found) in at.iter_mut().zip(&mut found) {
                let Some(here) = *line else { continue };
                *line = carried.get(here as usize).copied().flatten();
                if line.is_none() {
                    *found = Some(version.clone());
                }
            }
            match earlier {
                Some(earlier) => content = earlier,
                None => break,
            }
            if let Some(from) = from {
                path = from;
            }
        }
        Ok((runs(&found), None))
    }

    /// Returns the content of a file before a step; `None` if that version was
    /// deleted. Does not keep the version from garbage collection: an object
    /// that exists has the right content, and if it is missing, the catalog has
    /// a record of whether its version was deleted.
    async fn bytes_before(
        &self,
        seen: &Seen,
        version: &FileVersion,
        entry: &Entry,
    ) -> Result<Option<bytes::Bytes>> {
        let missing = match seen.repository().bytes(entry).await {
            Err(error @ EngineError::MissingObject(_)) => error,
            read => return Ok(Some(read?)),
        };
        let step = self
            .catalog
            .landing(seen.project.tenant, &seen.project.id, version.sequence);
        let Some(step) = step.await? else {
            return Err(missing.into());
        };
        let dropped = self.catalog.dropped_from(seen.project.tenant, step.parent);
        match dropped.await?.contains(&seen.project.id) {
            true => Ok(None),
            false => Err(missing.into()),
        }
    }
}

fn lines(content: &[u8]) -> u32 {
    let ends = content.iter().filter(|byte| **byte == b'\n').count();
    let rest = content.last().is_some_and(|byte| *byte != b'\n');
    u32::try_from(ends + usize::from(rest)).unwrap_or(u32::MAX)
}

/// Groups consecutive lines that the same step added.
fn runs(found: &[Option<FileVersion>]) -> Vec<api::BlamedLines> {
    let sequence = |at: usize| found[at].as_ref().map(|version| version.sequence);
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in 0..found.len() {
        match runs.last_mut() {
            Some(run) if sequence(run.start) == sequence(at) => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    let out = runs.into_iter().map(|run| {
        let version = found[run.start].as_ref();
        api::BlamedLines {
            start: run.start as u32 + 1,
            count: run.len() as u32,
            step: version.map(|version| version.sequence),
            agent: version.and_then(|version| version.agent.as_ref().map(ToString::to_string)),
            created_at: version.map(|version| clock::text(version.created)),
        }
    });
    out.collect()
}

/// Converts a change of a path to its form in the API, with only those sides
/// (before, after) that the view shows; `None` if the view shows neither.
pub(super) fn version_out(view: &View, version: &FileVersion) -> Option<api::FileVersion> {
    let change = &version.change;
    let earlier = change.from.as_ref().unwrap_or(&change.path);
    // A change of a whole directory is shown if the view shows any entry in it.
    // A change of its mode alone is shown if the view shows the directory
    // itself.
    let is_shown = |path: &TreePath, entry: &Entry| {
        shows(view, path, change.is_whole() && is_directory(entry))
    };
    let before = change.before.as_ref();
    let before = before.filter(|entry| is_shown(earlier, entry));
    let after = change.after.as_ref();
    let after = after.filter(|entry| is_shown(&change.path, entry));
    let kind = match (before, after) {
        // A move to a hidden path is left out: as a deletion it would be wrong,
        // and as a move it would reveal the hidden path.
        (Some(_), None) if change.from.is_some() => return None,
        (None, None) => return None,
        (None, Some(_)) => VersionKind::Added,
        (Some(_), None) => VersionKind::Removed,
        (Some(_), Some(_)) => change.kind,
    };
    let from = change.from.as_ref().filter(|_| before.is_some());
    Some(api::FileVersion {
        path: readable(change.path.as_bytes()),
        from: from.map(|from| readable(from.as_bytes())),
        kind: kind.to_string(),
        entries: match view.hides_below(&change.path) {
            true => 1,
            false => change.files.max(1),
        },
        algorithm: change.algorithm.clone(),
        step: version.sequence,
        snapshot: version.snapshot.to_string(),
        agent: version.agent.as_ref().map(ToString::to_string),
        workspace: version.workspace.as_ref().map(ToString::to_string),
        before: before.map(|entry| out::version(view, earlier, entry)),
        after: after.map(|entry| out::version(view, &change.path, entry)),
        created_at: clock::text(version.created),
    })
}
