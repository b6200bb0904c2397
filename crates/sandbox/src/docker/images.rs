use bollard::Docker;
use bollard::auth::DockerCredentials;
use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::{CreateImageOptionsBuilder, RemoveImageOptionsBuilder};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};

use super::failure::{self, Subject};
use crate::error::{Error, Result};
use crate::runtime::{Image, PullProgress};
use crate::spec::validate_image;

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
    fn a_name_without_a_tag_gets_the_latest() {
        assert_eq!(with_tag("debian"), "debian:latest");
        assert_eq!(with_tag("debian:12"), "debian:12");
        assert_eq!(with_tag("host:5000/debian"), "host:5000/debian:latest");
        assert_eq!(with_tag("debian@sha256:ab"), "debian@sha256:ab");
    }
}
