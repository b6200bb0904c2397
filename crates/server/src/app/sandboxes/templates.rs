//! Templates: named images that sandboxes are created from.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use elevo_api as api;
use elevo_api::{PullEvent, Scope};
use elevo_catalog::Catalog;
use elevo_catalog::Template;
use elevo_core::ErrorCode;
use elevo_sandbox::SandboxRuntime;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::app::access::principal::Principal;
use crate::app::missing::no_template;
use crate::app::pages::PageQuery;
use crate::app::resources::Resources;
use crate::app::sandboxes::warm_pools::WarmPools;
use crate::failure::{Failure, Result};
use crate::platform::{clock, installed};

/// Lists, adds and deletes templates, and pulls their images.
pub(crate) struct Templates {
    catalog: Arc<dyn Catalog>,
    runtime: Arc<dyn SandboxRuntime>,
    pools: Arc<WarmPools>,
    /// The files of the release.
    share: PathBuf,
    /// Whether the first template waits for the container engine.
    first_is_due: AtomicBool,
    /// Maximum bytes of an archive.
    most: u64,
}

/// The name of the template of the release, and of the archive of its image.
const FIRST: &str = "busybox";

impl Templates {
    pub(crate) fn new(resources: &Resources, pools: &Arc<WarmPools>) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            pools: pools.clone(),
            runtime: resources.runtime.clone(),
            share: installed::share_directory(&resources.config),
            first_is_due: AtomicBool::default(),
            most: resources.config.limits.most_archive_bytes(),
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
            app.put(wish, image, &found).await
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

    /// Adds or replaces a template with the image of an archive: a tar as `docker
    /// save` writes it; plain, gzip or zstd.
    pub(crate) async fn load(
        &self,
        who: &Principal,
        name: String,
        archive: Box<dyn Read + Send>,
    ) -> Result<api::Template> {
        // The archive decides the name of the image, so it can take the name of
        // any image of the machine.
        who.needs(Scope::System)?;
        let wish = api::AddTemplate {
            name,
            ..api::AddTemplate::default()
        };
        check(&wish)?;
        self.add_archive(wish, archive).await
    }

    async fn add_archive(
        &self,
        wish: api::AddTemplate,
        archive: Box<dyn Read + Send>,
    ) -> Result<api::Template> {
        let refused = |message: String| Failure::new(ErrorCode::ArchiveRefused, message);
        let broken = Arc::new(Mutex::new(None));
        let pieces = pieces(archive, self.most, broken.clone());
        let loaded = self.runtime.load(pieces).await;
        let images = loaded.map_err(|error| match (broken.lock().take(), error) {
            // The engine only sees that the archive ends too early.
            (Some(why), _) => refused(format!("the archive cannot be read: {why}")),
            (None, elevo_sandbox::Error::Refused { why, .. }) => refused(format!(
                "the container engine cannot read the archive: {why}"
            )),
            (None, error) => error.into(),
        })?;
        let [image] = &images[..] else {
            let count = images.len();
            return Err(refused(format!(
                "the archive has {count} images; a template needs an archive with one image"
            )));
        };
        let found = self.runtime.image(image).await?;
        let found = found.ok_or_else(|| refused(format!("the archive has no image `{image}`")))?;
        let image = image.clone();
        self.put(wish, image, &found).await
    }

    /// Adds the template of the release if there is no template. Without the
    /// container engine, [`Self::add_first_later`] adds it.
    pub(crate) async fn add_first(&self) -> Result<()> {
        self.first_is_due.store(false, Ordering::Relaxed);
        let path = self.share.join("images").join(format!("{FIRST}.tar.zst"));
        if !path.is_file() || !self.catalog.templates().await?.is_empty() {
            return Ok(());
        }
        let wish = api::AddTemplate {
            name: FIRST.into(),
            description: Some("A shell and small tools; the template of the release".into()),
            ..api::AddTemplate::default()
        };
        let archive = File::open(&path).map_err(|error| Failure::internal(&error))?;
        let added = self.add_archive(wish, Box::new(archive)).await;
        if let Err(failure) = &added
            && failure.code == ErrorCode::RuntimeUnavailable
        {
            self.first_is_due.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let template = added?;
        tracing::info!(
            template = template.name,
            image = template.image,
            "added the first template"
        );
        Ok(())
    }

    /// Adds the first template if the container engine did not respond when the
    /// server started.
    pub(crate) async fn add_first_later(&self) -> Result<()> {
        match self.first_is_due.load(Ordering::Relaxed) {
            true => self.add_first().await,
            false => Ok(()),
        }
    }

    /// Returns the name of a template, if there is one.
    pub(crate) async fn any(&self) -> Result<Option<String>> {
        let templates = self.catalog.templates().await?;
        Ok(templates.into_iter().next().map(|template| template.name))
    }

    async fn put(
        &self,
        wish: api::AddTemplate,
        image: String,
        found: &elevo_sandbox::Image,
    ) -> Result<api::Template> {
        let template = Template {
            name: wish.name,
            image,
            description: wish.description,
            tags: wish.tags,
            size: found.size,
            writable_root: wish.writable_root,
            created: clock::now(),
        };
        self.catalog.put_template(&template).await?;
        self.pools.check_soon();
        Ok(out(template))
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

/// Bytes of an archive that are sent at a time.
const PIECE: usize = 256 << 10;

/// Returns the decompressed bytes of an archive, up to `most`. A thread reads
/// them, which ends with the stream. `broken` gets the reason if the archive
/// cannot be read.
fn pieces(
    archive: Box<dyn Read + Send>,
    most: u64,
    broken: Arc<Mutex<Option<String>>>,
) -> BoxStream<'static, io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        let read = elevo_archive::decompress(archive).and_then(|mut plain| {
            let mut left = most;
            loop {
                let mut piece = Vec::with_capacity(PIECE);
                plain.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
                left = left.checked_sub(piece.len() as u64).ok_or_else(|| {
                    io::Error::other(format!("the archive has more than {most} bytes"))
                })?;
                if piece.is_empty() || sender.blocking_send(Ok(piece.into())).is_err() {
                    return Ok(());
                }
            }
        });
        if let Err(error) = read {
            *broken.lock() = Some(error.to_string());
            let _ = sender.blocking_send(Err(error));
        }
    });
    ReceiverStream::new(receiver).boxed()
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
