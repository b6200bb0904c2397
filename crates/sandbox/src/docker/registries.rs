//! Credentials for registries, from a file like Docker's `config.json`. The
//! file is read for every pull, so that renewed tokens are used.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bollard::auth::DockerCredentials;
use serde_json::Value;

use crate::error::{Error, Result};

/// Maximum size of the file.
const LONGEST: u64 = 1 << 20;
/// The registry of image names that do not name a registry.
const HUB: &str = "docker.io";

/// Returns the credentials for the registry of an image, if the file has any.
pub(super) async fn credentials(file: &Path, image: &str) -> Result<Option<DockerCredentials>> {
    let refused = |why: String| Error::refused("registry credentials", why);
    let size = tokio::fs::metadata(file).await;
    let size = size.map_err(|error| refused(format!("{}: {error}", file.display())))?;
    if size.len() > LONGEST {
        return Err(refused(format!("{} is larger than 1 MiB", file.display())));
    }
    let text = tokio::fs::read(file).await;
    let text = text.map_err(|error| refused(format!("{}: {error}", file.display())))?;
    // The message does not include the error of the parser, which may quote
    // secrets.
    let config: Value = serde_json::from_slice(&text)
        .map_err(|_| refused(format!("{} is not valid JSON", file.display())))?;
    Ok(of_registry(&config, registry_of(image)))
}

/// Returns the registry of an image.
fn registry_of(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => HUB,
    }
}

fn of_registry(config: &Value, registry: &str) -> Option<DockerCredentials> {
    let auths = config["auths"].as_object()?;
    let is_it = |name: &str| {
        let name = name.trim_start_matches("https://");
        let name = name.trim_start_matches("http://");
        let host = name.split('/').next().unwrap_or_default();
        host == registry || (registry == HUB && host == "index.docker.io")
    };
    let (name, entry) = auths.iter().find(|(name, _)| is_it(name))?;
    let text = |field: &str| Some(entry[field].as_str()?.to_owned());
    let (mut username, mut password) = (text("username"), text("password"));
    if let Some(both) = entry["auth"].as_str().filter(|both| !both.is_empty()) {
        let both = String::from_utf8(STANDARD.decode(both).ok()?).ok()?;
        let (user, secret) = both.split_once(':')?;
        username = Some(user.to_owned());
        password = Some(secret.to_owned());
    }
    Some(DockerCredentials {
        username,
        password,
        identitytoken: text("identitytoken"),
        serveraddress: Some(name.clone()),
        ..DockerCredentials::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_registry_is_the_beginning_of_the_image_name() {
        assert_eq!(registry_of("debian:12"), HUB);
        assert_eq!(registry_of("library/debian"), HUB);
        assert_eq!(registry_of("ghcr.io/a/b:1"), "ghcr.io");
        assert_eq!(registry_of("localhost/a"), "localhost");
        assert_eq!(registry_of("10.0.0.1:5000/a/b"), "10.0.0.1:5000");
    }

    #[test]
    fn credentials_are_those_of_the_registry() {
        let config = json!({"auths": {
            "https://index.docker.io/v1/": {"auth": STANDARD.encode("hub:of:all")},
            "ghcr.io": {"username": "me", "password": "secret"},
            "token.example.com": {"auth": "", "identitytoken": "t"},
            "broken.example.com": {"auth": "%"},
        }});
        let found = |registry| of_registry(&config, registry);
        let hub = found(HUB).unwrap();
        assert_eq!(hub.username.as_deref(), Some("hub"));
        assert_eq!(hub.password.as_deref(), Some("of:all"));
        assert_eq!(
            found("ghcr.io").unwrap().password.as_deref(),
            Some("secret")
        );
        let token = found("token.example.com").unwrap();
        assert_eq!(token.identitytoken.as_deref(), Some("t"));
        assert!(found("broken.example.com").is_none());
        assert!(found("quay.io").is_none());
        assert!(of_registry(&json!({}), HUB).is_none());
    }
}
