//! Finds out which paths of this machine the engine sees.

use std::path::Path;

use bollard::Docker;
use bollard::errors::Error as Told;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};
use bollard::query_parameters::CreateContainerOptions;

/// An image that does not exist: the domain `.invalid` is reserved.
const NO_IMAGE: &str = "elevo.invalid/none";

/// Returns whether the engine sees a directory at `path`; `None` if its
/// responses do not tell.
///
/// Requests a container that binds the path. Docker checks the path first and
/// then the image, so one of them rejects the request, and nothing is created.
pub(super) async fn sees(docker: &Docker, path: &Path) -> Result<Option<bool>, Told> {
    if lacks(docker, path).await? {
        return Ok(Some(false));
    }
    // An engine that checks the image first does not report this path either.
    let reports_paths = lacks(docker, &path.join("missing")).await?;
    Ok(reports_paths.then_some(true))
}

/// Returns whether the engine reports that it has no such path.
async fn lacks(docker: &Docker, path: &Path) -> Result<bool, Told> {
    let mount = Mount {
        typ: Some(MountType::BIND),
        source: Some(path.to_string_lossy().into_owned()),
        target: Some("/probe".to_owned()),
        read_only: Some(true),
        ..Mount::default()
    };
    let request = ContainerCreateBody {
        image: Some(NO_IMAGE.to_owned()),
        host_config: Some(HostConfig {
            mounts: Some(vec![mount]),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let created = docker.create_container(None::<CreateContainerOptions>, request);
    match created.await {
        Err(Told::DockerResponseServerError { message, .. }) => {
            Ok(message.contains("bind source path does not exist"))
        }
        Err(error) => Err(error),
        Ok(created) => {
            docker.remove_container(&created.id, None).await?;
            Ok(false)
        }
    }
}
