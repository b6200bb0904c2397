use std::io;
use std::time::Duration;

use bollard::Docker;
use bollard::auth::DockerCredentials;
use bollard::errors::Error as Told;
use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::{
    CreateImageOptionsBuilder, ImportImageOptionsBuilder, RemoveImageOptionsBuilder,
};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};

use super::failure::{self, Subject};
use crate::error::{Error, Result};
use crate::runtime::{Image, PullProgress};
use crate::spec::validate_image;

/// Maximum time to load an archive.
const LOADING: Duration = Duration::from_secs(15 * 60);

/// Maximum number of volumes that an image may declare.
const MAX_VOLUMES: usize = 16;

async fn inspect(docker: &Docker, host: &str, name: &str) -> Result<ImageInspect> {
    validate_image(name)?;
    let found = docker.inspect_image(name).await;
    found.map_err(|error| failure::translate(host, Subject::Image(name), error))
}

pub(super) async fn image(docker: &Docker, host: &str, name: &str) -> Result<Option<Image>> {
    match inspect(docker, host, name).await {
        Ok(found) => Ok(Some(Image {
            id: found.id.unwrap_or_default(),
            size: found.size.and_then(|n| n.try_into().ok()).unwrap_or(0),
            created: found.created,
        })),
        Err(Error::NoSuchImage { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the directories that an image declares as volumes.
pub(super) async fn volumes(docker: &Docker, host: &str, name: &str) -> Result<Vec<String>> {
    let found = inspect(docker, host, name).await?;
    let volumes = found.config.and_then(|config| config.volumes);
    let volumes = volumes.unwrap_or_default();
    if volumes.len() > MAX_VOLUMES {
        let why = format!(
            "the image declares {} volumes; the maximum is {MAX_VOLUMES}",
            volumes.len()
        );
        return Err(Error::refused("image", why));
    }
    Ok(volumes)
}

pub(super) async fn remove(docker: &Docker, host: &str, name: &str) -> Result<()> {
    validate_image(name)?;
    let options = RemoveImageOptionsBuilder::default().build();
    let removed = docker.remove_image(name, Some(options), None).await;
    match removed.map_err(|error| failure::translate(host, Subject::Image(name), error)) {
        Ok(_) | Err(Error::NoSuchImage { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) fn pull(
    docker: Docker,
    host: String,
    name: &str,
    credentials: Option<DockerCredentials>,
) -> BoxStream<'static, Result<PullProgress>> {
    if let Err(error) = validate_image(name) {
        return stream::iter([Err(error)]).boxed();
    }
    let name = with_tag(name);
    let options = CreateImageOptionsBuilder::default()
        .from_image(&name)
        .build();
    let steps = docker.create_image(Some(options), None, credentials);
    steps
        .map(move |step| match step {
            Ok(step) => Ok(progress(step)),
            Err(error) => Err(failure::translate(&host, Subject::Image(&name), error)),
        })
        .boxed()
}

/// Adds the images of an archive, and returns their names.
pub(super) async fn load(
    docker: &Docker,
    host: &str,
    archive: BoxStream<'static, io::Result<Bytes>>,
) -> Result<Vec<String>> {
    let options = ImportImageOptionsBuilder::default().build();
    // The engine responds when it has read the whole archive.
    let docker = docker.clone().with_timeout(LOADING);
    let mut steps = docker.import_image_stream(options, archive, None);
    let mut names = Vec::new();
    while let Some(step) = steps.next().await {
        let step = step.map_err(|error| match error {
            // The engine reports an archive that it cannot read as a failure of
            // its own.
            Told::DockerResponseServerError { message, .. } => Error::refused("archive", message),
            Told::DockerStreamError { error } => Error::refused("archive", error),
            error => failure::translate(host, Subject::Engine, error),
        })?;
        let line = step.stream.unwrap_or_default();
        names.extend(loaded_name(&line).map(str::to_owned));
    }
    Ok(names)
}

/// Returns the name of the image that a line of the engine reports as loaded.
fn loaded_name(line: &str) -> Option<&str> {
    let line = line.trim();
    let name = line.strip_prefix("Loaded image: ");
    name.or_else(|| line.strip_prefix("Loaded image ID: "))
}

/// Adds the tag `latest` to a name without a tag, for which the engine would
/// fetch all tags.
fn with_tag(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) {
        name.to_owned()
    } else {
        format!("{name}:latest")
    }
}

fn progress(step: CreateImageInfo) -> PullProgress {
    let detail = step.progress_detail.unwrap_or_default();
    let count = |bytes: Option<i64>| bytes.and_then(|bytes| bytes.try_into().ok());
    PullProgress {
        layer: step.id,
        status: step.status.unwrap_or_default(),
        current: count(detail.current),
        total: count(detail.total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_loaded_images_are_read() {
        assert_eq!(loaded_name("Loaded image: a/b:1\n"), Some("a/b:1"));
        assert_eq!(
            loaded_name("Loaded image ID: sha256:ab\n"),
            Some("sha256:ab")
        );
        assert_eq!(loaded_name("Loading layer"), None);
    }

    #[test]
    fn a_name_without_a_tag_gets_the_latest() {
        assert_eq!(with_tag("debian"), "debian:latest");
        assert_eq!(with_tag("debian:12"), "debian:12");
        assert_eq!(with_tag("host:5000/debian"), "host:5000/debian:latest");
        assert_eq!(with_tag("debian@sha256:ab"), "debian@sha256:ab");
    }
}
