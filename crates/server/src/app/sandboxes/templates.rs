//! Templates: named images that sandboxes are created from.

use std::sync::Arc;

use elevo_api as api;
use elevo_api::{PullEvent, Scope};
use elevo_catalog::Catalog;
use elevo_catalog::Template;
use elevo_core::ErrorCode;
use elevo_sandbox::SandboxRuntime;
use futures::StreamExt;
use tokio::sync::mpsc;

use crate::app::access::principal::Principal;
use crate::app::missing::no_template;
use crate::app::pages::PageQuery;
use crate::app::resources::Resources;
use crate::app::sandboxes::warm_pools::WarmPools;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// Lists, adds and deletes templates, and pulls their images.
pub(crate) struct Templates {
    catalog: Arc<dyn Catalog>,
    runtime: Arc<dyn SandboxRuntime>,
    pools: Arc<WarmPools>,
}

impl Templates {
    pub(crate) fn new(resources: &Resources, pools: &Arc<WarmPools>) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            pools: pools.clone(),
            runtime: resources.runtime.clone(),
        }
    }

    pub(crate) async fn list(&self, _: &Principal, page: PageQuery) -> Result<api::TemplatePage> {
        let templates = self.catalog.templates().await?;
        let name = |template: &Template| template.name.clone();
        let (templates, next) = page.cut(templates, page.cursor.as_ref(), name);
        let items = templates.into_iter().map(out).collect();
        Ok(api::TemplatePage { items, next })
    }

    /// Adds or replaces a template. Pulls its image if the container engine does
    /// not have it, and sends the progress of the pull to `progress`.
    pub(crate) async fn add(
        self: &Arc<Self>,
        who: &Principal,
        wish: api::AddTemplate,
        progress: Option<mpsc::Sender<PullEvent>>,
    ) -> Result<api::Template> {
        who.needs(Scope::TemplatesWrite)?;
        check(&wish)?;
        let image = wish.image.clone().unwrap_or_else(|| wish.name.clone());
        let app = self.clone();
        // A separate task, so that the pull is completed even if the client
        // disconnects.
        let adding = tokio::spawn(async move {
            let found = match app.runtime.image(&image).await? {
                Some(found) => found,
                None => app.pull(&image, progress).await?,
            };
            let template = Template {
                name: wish.name,
                image,
                description: wish.description,
                tags: wish.tags,
                size: found.size,
                writable_root: wish.writable_root,
                created: clock::now(),
            };
            app.catalog.put_template(&template).await?;
            app.pools.check_soon();
            Ok(out(template))
        });
        adding.await.map_err(|error| Failure::internal(&error))?
    }

    async fn pull(
        &self,
        image: &str,
        progress: Option<mpsc::Sender<PullEvent>>,
    ) -> Result<elevo_sandbox::Image> {
        let unavailable = |message: String| {
            let message = format!("cannot pull the image `{image}`: {message}");
            Failure::new(ErrorCode::ImageUnavailable, message)
        };
        let mut steps = self.runtime.pull(image).await;
        while let Some(step) = steps.next().await {
            let step = step.map_err(|error| match Failure::from(error) {
                failure if failure.code == ErrorCode::RuntimeUnavailable => failure,
                failure => unavailable(failure.message),
            })?;
            if let Some(progress) = &progress {
                // If the client reads slowly, the channel is full and this
                // progress event is skipped. The caller sends the final result
                // separately, and waits for space in the channel.
                let _ = progress.try_send(PullEvent::Progress {
                    layer: step.layer.unwrap_or_default(),
                    status: step.status,
                    current: step.current.unwrap_or_default(),
                    total: step.total.unwrap_or_default(),
                });
            }
        }
        let found = self.runtime.image(image).await?;
        found.ok_or_else(|| {
            unavailable("the container engine does not have it after the pull".into())
        })
    }

    /// Deletes a template. The container engine keeps the image.
    pub(crate) async fn remove(&self, who: &Principal, name: &str) -> Result<()> {
        who.needs(Scope::TemplatesWrite)?;
        match self.catalog.remove_template(name).await? {
            true => {
                self.pools.check_soon();
                Ok(())
            }
            false => Err(no_template(name)),
        }
    }
}

fn check(wish: &api::AddTemplate) -> Result<()> {
    let is_name = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        (1..=255).contains(&text.len())
            && text.chars().all(allowed)
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    if !is_name(&wish.name) || !wish.image.as_deref().is_none_or(is_name) {
        let message = "`name` and `image` must be names of images, such as python:3.12-slim";
        return Err(Failure::invalid(message));
    }
    if wish.tags.len() > 20 || wish.tags.iter().any(|tag| tag.len() > 100) {
        return Err(Failure::invalid(
            "`tags` has more than 20 entries, or an entry of more than 100 bytes",
        ));
    }
    if wish
        .description
        .as_ref()
        .is_some_and(|text| text.len() > 1000)
    {
        return Err(Failure::invalid("`description` has more than 1000 bytes"));
    }
    Ok(())
}

fn out(template: Template) -> api::Template {
    api::Template {
        name: template.name,
        image: template.image,
        description: template.description,
        tags: template.tags,
        size: template.size,
        writable_root: template.writable_root,
        created_at: clock::text(template.created),
    }
}
