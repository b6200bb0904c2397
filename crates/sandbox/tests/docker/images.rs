//! Tests that images are found, pulled and deleted.

use elevo_sandbox::{Error, SandboxRuntime};
use elevo_testkit::docker;
use futures::{StreamExt, stream};

use crate::registry;
use crate::support::with_installation;

#[test]
fn an_image_is_found_by_its_name() {
    with_installation(async |own| {
        let image = own.runtime.image(&docker::image()).await.unwrap().unwrap();
        assert!(image.id.starts_with("sha256:"), "{image:?}");
        assert!(image.size > 1 << 20 && image.created.is_some(), "{image:?}");
        assert_eq!(
            own.runtime.image("elevo-test/absent:1").await.unwrap(),
            None
        );
    });
}

#[test]
fn does_not_create_a_container_of_a_missing_image() {
    with_installation(async |own| {
        let mut spec = own.spec("true");
        spec.image = "elevo-test/absent:1".to_owned();
        let error = own.runtime.create(&spec).await.unwrap_err();
        assert!(matches!(error, Error::NoSuchImage { name } if name == spec.image));
    });
}

#[test]
fn removes_an_image_only_if_no_container_uses_it() {
    with_installation(async |own| {
        let base = own.runtime.create(&own.spec("true")).await.unwrap();
        let image = own.commit("copy", &base, "LABEL copied=yes");
        let mut spec = own.spec("true");
        spec.image = image.clone();
        let id = own.runtime.create(&spec).await.unwrap();
        let error = own.runtime.remove_image(&image).await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error:?}");

        own.runtime.remove(&id).await.unwrap();
        own.runtime.remove(&base).await.unwrap();
        own.runtime.remove_image(&image).await.unwrap();
        own.runtime.remove_image(&image).await.unwrap();
        assert_eq!(own.runtime.image(&image).await.unwrap(), None);
    });
}

#[test]
fn a_pull_that_fails_ends_with_an_error() {
    with_installation(async |own| {
        // No server listens on this port.
        let steps: Vec<_> = own
            .runtime
            .pull("127.0.0.1:1/absent:1")
            .await
            .collect()
            .await;
        let error = steps.into_iter().find_map(Result::err).unwrap();
        assert!(matches!(error, Error::Failed { .. }), "{error:?}");
        let steps: Vec<_> = own.runtime.pull("a?b").await.collect().await;
        assert!(matches!(
            steps[..],
            [Err(Error::Refused { what: "image", .. })]
        ));
    });
}

#[test]
fn an_image_is_fetched_with_its_progress() {
    with_installation(async |own| {
        let name = format!("{}/small:1", registry::serve());
        let steps: Vec<_> = own.runtime.pull(&name).await.collect().await;
        let steps: Vec<_> = steps.into_iter().map(Result::unwrap).collect();
        assert!(steps.iter().any(|step| step.layer.is_some()), "{steps:?}");
        assert!(own.runtime.image(&name).await.unwrap().is_some());
        own.runtime.remove_image(&name).await.unwrap();
        assert_eq!(own.runtime.image(&name).await.unwrap(), None);
    });
}

#[test]
fn an_image_of_a_private_registry_needs_its_credentials() {
    with_installation(async |own| {
        // The encoded credentials are `me:secret`.
        let address = registry::serve_to(Some("Basic bWU6c2VjcmV0"));
        let name = format!("{address}/small:1");
        let steps: Vec<_> = own.runtime.pull(&name).await.collect().await;
        let error = steps.into_iter().find_map(Result::err).unwrap();
        assert!(matches!(error, Error::ImageDenied { .. }), "{error:?}");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.json");
        let auths = format!(r#"{{"auths": {{"{address}": {{"auth": "bWU6c2VjcmV0"}}}}}}"#);
        std::fs::write(&file, auths).unwrap();
        let allowed = own.with_registries(Some(file)).await;
        let steps: Vec<_> = allowed.pull(&name).await.collect().await;
        assert!(steps.iter().all(Result::is_ok), "{steps:?}");
        assert!(allowed.image(&name).await.unwrap().is_some());
        allowed.remove_image(&name).await.unwrap();
    });
}

#[test]
fn an_image_missing_in_its_registry_is_reported() {
    with_installation(async |own| {
        let name = format!("{}/small:2", registry::serve());
        let steps: Vec<_> = own.runtime.pull(&name).await.collect().await;
        let error = steps.into_iter().find_map(Result::err).unwrap();
        assert!(matches!(error, Error::NoSuchImage { .. }), "{error:?}");
    });
}

#[test]
fn the_images_of_an_archive_are_loaded() {
    with_installation(async |own| {
        let name = "elevo-test/archived:1";
        own.runtime.remove_image(name).await.unwrap();
        let archive = docker::image_archive(name);
        let pieces: Vec<_> = archive.chunks(1000).map(<[u8]>::to_vec).collect();
        let pieces = stream::iter(pieces).map(|piece| Ok(piece.into())).boxed();
        assert_eq!(own.runtime.load(pieces).await.unwrap(), [name]);
        assert!(own.runtime.image(name).await.unwrap().is_some());
        own.runtime.remove_image(name).await.unwrap();

        let noise = stream::iter([Ok(vec![7; 4096].into())]).boxed();
        let error = own.runtime.load(noise).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        let broken = stream::iter([Err(std::io::Error::other("cut off"))]).boxed();
        own.runtime.load(broken).await.unwrap_err();
    });
}
