//! Tags: names for versions of a project. Retention keeps a tagged version.

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{Project, Tag};
use elevo_core::ErrorCode;
use elevo_objects::SnapshotId;

use crate::app::access::names::problem_of_version;
use crate::app::access::principal::Principal;
use crate::app::pages::PageQuery;
use crate::app::projects::Projects;
use crate::app::projects::project_ref::ProjectRef;
use crate::app::requests::once::Once;
use crate::app::snapshots::no_snapshot;
use crate::failure::{Failure, Result, short};
use crate::platform::clock;

impl Projects {
    pub(crate) async fn set_tag(
        &self,
        who: &Principal,
        project: &ProjectRef,
        wish: api::SetTag,
        once: &Once,
    ) -> Result<api::Tag> {
        who.needs(Scope::ProjectsWrite)?;
        check_name(&wish.name)?;
        if wish.message.len() > 1000 {
            return Err(Failure::invalid("`message` has more than 1000 bytes"));
        }
        let project = self.find(who, project).await?;
        // A retry: the earlier attempt has set this tag.
        if let Some(noted) = once.noted::<String>()
            && let Some(tag) = self
                .catalog
                .tag(project.tenant, &project.id, &wish.name)
                .await?
            && tag.snapshot.to_string() == noted
        {
            return self.tag_out(&project, tag).await;
        }
        let version = self.version(&project, wish.snapshot.as_deref()).await?;
        once.note(&version.id.to_string()).await?;
        let tag = Tag {
            project: project.id.clone(),
            name: wish.name,
            snapshot: version.id,
            key: who.key.clone(),
            agent: who.agent.clone(),
            message: wish.message,
            created: clock::now(),
        };
        let set = self.catalog.set_tag(who.tenant, &tag, wish.may_move).await;
        set.map_err(|error| match error {
            elevo_catalog::Error::Exists { .. } => taken(&tag.name),
            error => error.into(),
        })?;
        self.tag_out(&project, tag).await
    }

    pub(crate) async fn list_tags(
        &self,
        who: &Principal,
        project: &ProjectRef,
        page: PageQuery,
    ) -> Result<api::TagPage> {
        who.needs(Scope::ProjectsRead)?;
        let project = self.find(who, project).await?;
        let found = self.catalog.tags(
            project.tenant,
            &project.id,
            page.cursor.as_deref(),
            page.limit,
        );
        let found = found.await?;
        let last = found.last().filter(|_| found.len() >= page.limit as usize);
        let next = last.map(|tag| tag.name.clone());
        let mut items = Vec::new();
        for tag in found {
            items.push(self.tag_out(&project, tag).await?);
        }
        Ok(api::TagPage { items, next })
    }

    pub(crate) async fn remove_tag(
        &self,
        who: &Principal,
        project: &ProjectRef,
        name: &str,
    ) -> Result<()> {
        who.needs(Scope::ProjectsWrite)?;
        let project = self.find(who, project).await?;
        match self
            .catalog
            .remove_tag(project.tenant, &project.id, name)
            .await?
        {
            true => Ok(()),
            false => {
                let message = format!("the project has no tag `{}`", short(name));
                Err(Failure::new(ErrorCode::TagNotFound, message).about("tag", short(name)))
            }
        }
    }

    /// Returns the version that a tag names.
    pub(crate) async fn tagged(&self, project: &Project, name: &str) -> Result<SnapshotId> {
        let found = self.catalog.tag(project.tenant, &project.id, name).await?;
        let found = found.map(|tag| tag.snapshot);
        found.ok_or_else(|| no_snapshot(name).remediation(UNKNOWN))
    }

    async fn tag_out(&self, project: &Project, tag: Tag) -> Result<api::Tag> {
        let landed = self
            .catalog
            .landing_of_snapshot(project.tenant, &project.id, tag.snapshot)
            .await?;
        Ok(api::Tag {
            name: tag.name,
            snapshot: tag.snapshot.to_string(),
            step: landed.map(|entry| entry.sequence),
            agent: tag.agent.as_ref().map(ToString::to_string),
            message: tag.message,
            created_at: clock::text(tag.created),
        })
    }
}

/// The remedy for a name that is neither a snapshot id nor a tag.
const UNKNOWN: &str = "Use the full id of a snapshot from `elevo project log --json`, or a tag \
                       of the project (`elevo project tag`).";

fn taken(name: &str) -> Failure {
    let message = format!("the project already has a tag `{}`", short(name));
    let failure = Failure::new(ErrorCode::NameTaken, message).about("tag", short(name));
    failure.remediation("Choose another name, or send `move` to move the tag.")
}

/// Rejects a tag that could also be read as `head`, a step or a snapshot id.
fn check_name(name: &str) -> Result<()> {
    let why = match name {
        "head" => Some("`head` always names the newest version"),
        _ if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some("a number names a step")
        }
        _ => problem_of_version(name),
    };
    match why {
        None => Ok(()),
        Some(why) => Err(Failure::invalid(format!(
            "`{}` is not a valid tag: {why}",
            short(name)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_cannot_be_taken_for_another_name_of_a_version() {
        for good in ["v1", "1.0", "release-2026_11", "beta", "cafe", "0x"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = "x".repeat(101);
        let whole = "0".repeat(64);
        for bad in [
            "", &long, "a b", "a/b", "ä", "-a", ".a", "head", "12", "c0ffee", &whole,
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
