//! The steps of a project, and the changes of each.

use elevo_api as api;
use elevo_catalog::{LogEntry, MAX_PAGE, Project};
use elevo_core::{ErrorCode, TreePath};
use elevo_policy::View;

use crate::app::access::principal::Principal;
use crate::app::files::stored::tree_path;
use crate::app::pages::{self, PageQuery};
use crate::app::projects::Projects;
use crate::app::projects::history::{Rows, version_out};
use crate::app::projects::project_ref::ProjectRef;
use crate::failure::{Failure, Result};
use crate::platform::clock;

impl Projects {
    /// Returns the steps of a project that the principal may see, newest first.
    pub(crate) async fn steps(
        &self,
        who: &Principal,
        project: &ProjectRef,
        until: Option<u64>,
        page: PageQuery,
    ) -> Result<api::StepPage> {
        let until = until.and_then(|until| until.checked_add(1));
        let (mut before, limit) = (page.number()?.or(until), page.limit);
        let seen = self.seen(who, project, None).await?;
        let (tenant, id) = (who.tenant, &seen.project.id);
        let (mut items, mut rows) = (Vec::new(), Rows::of_one_answer());
        loop {
            let page = self.catalog.log(tenant, id, before, MAX_PAGE).await?;
            for entry in &page {
                rows.look_at(1);
                before = Some(entry.sequence);
                let shown = step_out(entry);
                if !seen.view.hides_anything() {
                    items.push(shown);
                } else {
                    let step = (&seen.project, entry.sequence);
                    let changed = self.shown_changes(&seen.view, step, u64::MAX, &mut rows);
                    let changed = changed.await?;
                    items.extend((changed > 0).then_some(api::Step { changed, ..shown }));
                }
                // The page has fewer steps than `limit`, or none, if most of the
                // rows were hidden. `next` continues after the last row.
                if items.len() >= limit as usize || rows.are_used_up() {
                    let next = before.filter(|sequence| *sequence > 1);
                    let next = next.map(|sequence| sequence.to_string());
                    return Ok(api::StepPage { items, next });
                }
            }
            if page.len() < MAX_PAGE as usize {
                return Ok(api::StepPage { items, next: None });
            }
        }
    }

    /// Returns the number of changes of a step that the view shows. Stops
    /// reading when it has found `enough`.
    async fn shown_changes(
        &self,
        view: &View,
        (project, sequence): (&Project, u64),
        enough: u64,
        rows: &mut Rows,
    ) -> Result<u64> {
        let Project { tenant, id, .. } = project;
        let (mut after, mut shown): (Option<TreePath>, u64) = (None, 0);
        loop {
            let page = self
                .catalog
                .versions_in(*tenant, id, sequence, after.as_ref(), MAX_PAGE);
            let page = page.await?;
            rows.look_at(page.len());
            let found = page.iter().filter_map(|version| version_out(view, version));
            shown += found.count() as u64;
            match page.last() {
                Some(last) if page.len() == MAX_PAGE as usize && shown < enough => {
                    after = Some(last.change.path.clone());
                }
                _ => return Ok(shown),
            }
        }
    }

    /// Returns true if a step of a project changed a path that the principal may
    /// see.
    pub(crate) async fn shows_step(
        &self,
        who: &Principal,
        (project, sequence): (&str, u64),
        rows: &mut Rows,
    ) -> Result<bool> {
        rows.look_at(1);
        let Ok(project) = project.parse() else {
            return Ok(false);
        };
        let Some(project) = self.catalog.project(who.tenant, &project).await? else {
            return Ok(false);
        };
        let view = self.view(who, &project).await?;
        if !view.hides_anything() {
            return Ok(true);
        }
        let shown = self.shown_changes(&view, (&project, sequence), 1, rows);
        Ok(shown.await? > 0)
    }

    /// Returns one step of a project. A step with only hidden changes does not
    /// exist for the principal.
    pub(crate) async fn step(
        &self,
        who: &Principal,
        project: &ProjectRef,
        number: u64,
    ) -> Result<api::Step> {
        let missing = || {
            let message = format!("the project has no step {number}");
            Failure::new(ErrorCode::StepNotFound, message).about("step", number)
        };
        let seen = self.seen(who, project, None).await?;
        let before = number.checked_add(1).ok_or_else(missing)?;
        let found = self
            .catalog
            .log(who.tenant, &seen.project.id, Some(before), 1)
            .await?;
        let found = found.first().filter(|entry| entry.sequence == number);
        let found = step_out(found.ok_or_else(missing)?);
        if !seen.view.hides_anything() {
            return Ok(found);
        }
        let mut rows = Rows::of_one_answer();
        let changed = self.shown_changes(&seen.view, (&seen.project, number), u64::MAX, &mut rows);
        match changed.await? {
            0 => Err(missing()),
            changed => Ok(api::Step { changed, ..found }),
        }
    }

    /// Returns the changes of one step, at or below `path`, that the principal
    /// may see.
    pub(crate) async fn step_changes(
        &self,
        who: &Principal,
        project: &ProjectRef,
        (sequence, path): (u64, Option<&str>),
        page: PageQuery,
    ) -> Result<api::VersionPage> {
        let limit = page.limit;
        let after = page.bytes()?.map(TreePath::new).transpose();
        let mut after = after.map_err(|_| pages::not_a_cursor())?;
        let within = path.map(tree_path).transpose()?.unwrap_or_default();
        let seen = self.seen(who, project, None).await?;
        let id = &seen.project.id;
        let mut items = Vec::new();
        loop {
            let page = self
                .catalog
                .versions_in(who.tenant, id, sequence, after.as_ref(), MAX_PAGE);
            let page = page.await?;
            for version in &page {
                if !version.change.path.starts_with(&within) {
                    continue;
                }
                let Some(item) = version_out(&seen.view, version) else {
                    continue;
                };
                // The cursor is a path, so it must be one that the principal
                // may see.
                let next = Some(pages::of_bytes(version.change.path.as_bytes()));
                items.push(item);
                if items.len() >= limit as usize {
                    return Ok(api::VersionPage { items, next });
                }
            }
            match page.last() {
                Some(last) if page.len() == MAX_PAGE as usize => {
                    after = Some(last.change.path.clone());
                }
                _ => return Ok(api::VersionPage { items, next: None }),
            }
        }
    }
}

fn step_out(entry: &LogEntry) -> api::Step {
    api::Step {
        number: entry.sequence,
        snapshot: entry.snapshot.to_string(),
        parent: entry.parent.to_string(),
        kind: entry.kind.to_string(),
        agent: entry.agent.as_ref().map(ToString::to_string),
        workspace: entry.workspace.as_ref().map(ToString::to_string),
        decided: serde_json::from_value(entry.counts["decided"].clone()).unwrap_or_default(),
        message: entry.message.clone(),
        changed: entry.counts["landed"].as_u64().unwrap_or_default(),
        created_at: clock::text(entry.created),
        dropped_at: entry.dropped.map(clock::text),
    }
}
