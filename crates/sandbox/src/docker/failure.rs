use bollard::errors::Error as Told;

use crate::error::Error;
use crate::runtime::ContainerId;
use crate::spec::ContainerSpec;

/// The subject of a request, which determines the meaning of the engine's
/// status code.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject<'a> {
    Engine,
    Spec(&'a ContainerSpec),
    Start { id: &'a ContainerId, image: &'a str },
    Container(&'a ContainerId),
    Image(&'a str),
    Network,
}

/// Converts an error of the engine's client into an error that a caller can act
/// on.
pub(super) fn translate(host: &str, subject: Subject<'_>, error: Told) -> Error {
    match error {
        Told::DockerResponseServerError {
            status_code,
            message,
        } => answered(subject, status_code, message),
        Told::DockerStreamError { error } => answered(subject, 500, error),
        Told::JsonDataError { .. }
        | Told::JsonSerdeError { .. }
        | Told::APIVersionParseError { .. }
        | Told::StrParseError { .. }
        | Told::URLEncodedError { .. } => Error::failed(error.to_string()),
        // All other variants are failures of the connection.
        error => Error::Unreachable {
            host: host.to_owned(),
            source: Box::new(error),
        },
    }
}

fn answered(subject: Subject<'_>, status: u16, message: String) -> Error {
    match (status, subject) {
        (404, Subject::Spec(spec)) if message.contains("No such image") => no_image(&spec.image),
        (404, Subject::Container(id) | Subject::Start { id, .. })
            if message.contains("No such container") =>
        {
            Error::NoSuchContainer { id: id.0.clone() }
        }
        (_, Subject::Image(name)) if is_invalid_name(&message) => {
            let why = format!("`{name}` is not a valid image name");
            Error::refused("image", why)
        }
        // This arm precedes the one for 404, because some engines report a
        // denied pull with this status.
        (_, Subject::Image(name)) if is_denied_pull(&message) => Error::ImageDenied {
            name: name.to_owned(),
        },
        (404, Subject::Image(name)) => no_image(name),
        (409, _) => Error::Conflict { message },
        (_, Subject::Image(name)) if is_unknown_image(&message) => no_image(name),
        (400 | 500, Subject::Spec(spec)) => refused_spec(spec, message),
        (_, Subject::Start { image, .. }) if is_about_the_command(status, &message) => {
            Error::NotRunnable {
                image: image.to_owned(),
                message,
            }
        }
        _ => Error::Failed { message },
    }
}

fn no_image(name: &str) -> Error {
    Error::NoSuchImage {
        name: name.to_owned(),
    }
}

/// Recognizes a pull without the credentials that the registry needs.
fn is_denied_pull(message: &str) -> bool {
    let denied = [
        "pull access denied",
        "no basic auth credentials",
        "unauthorized",
        "401 Unauthorized",
        "403 Forbidden",
    ];
    denied.iter().any(|words| message.contains(words))
}

/// Recognizes an image that is missing in its registry.
fn is_unknown_image(message: &str) -> bool {
    ["manifest unknown", "name unknown"]
        .iter()
        .any(|words| message.contains(words))
}

/// Recognizes an invalid image name, which the engine reports only while it
/// handles the request.
fn is_invalid_name(message: &str) -> bool {
    ["invalid reference format", "repository name must"]
        .iter()
        .any(|words| message.contains(words))
}

fn refused_spec(spec: &ContainerSpec, message: String) -> Error {
    let lower = message.to_lowercase();
    let about = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    match &spec.runtime {
        Some(name) if about(&["unknown runtime", "invalid runtime name"]) => {
            Error::NoSuchRuntime { name: name.clone() }
        }
        _ if about(&["range of cpus"]) => Error::refused("cpu_millis", message),
        _ if about(&["memory limit", "memory and swap"]) => Error::refused("memory", message),
        _ if about(&["mount", "bind source path"]) => Error::refused("mounts", message),
        _ => Error::Failed { message },
    }
}

fn is_about_the_command(status: u16, message: &str) -> bool {
    let about = [
        "exec: ",
        "exec format error",
        "exec user process",
        "chdir to cwd",
    ];
    status == 400 || about.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status_code: u16, message: &str) -> Told {
        Told::DockerResponseServerError {
            status_code,
            message: message.to_owned(),
        }
    }

    #[test]
    fn a_missing_image_is_recognized_in_the_words_of_every_registry() {
        for error in [
            told(404, "manifest for x not found"),
            told(500, "manifest unknown: manifest unknown"),
        ] {
            let error = translate("unix:///s", Subject::Image("x"), error);
            assert!(matches!(error, Error::NoSuchImage { name } if name == "x"));
        }
    }

    #[test]
    fn a_denied_pull_is_not_reported_as_a_missing_image() {
        let denied = "pull access denied for x, repository does not exist or may require \
                      'docker login': denied: requested access to the resource is denied";
        for error in [
            told(404, denied),
            told(500, denied),
            told(
                500,
                "Head \"https://r/v2/x/manifests/1\": no basic auth credentials",
            ),
            told(500, "unauthorized: authentication required"),
        ] {
            let error = translate("unix:///s", Subject::Image("x"), error);
            assert!(matches!(error, Error::ImageDenied { name } if name == "x"));
        }
    }

    #[test]
    fn a_name_that_the_engine_cannot_parse_is_refused() {
        for message in [
            "no such image: X: invalid reference format: repository name must be lowercase",
            "no such image: 0: repository name must not be more than 255 characters",
        ] {
            let error = translate("unix:///s", Subject::Image("X"), told(500, message));
            assert!(matches!(error, Error::Refused { what: "image", .. }));
        }
    }

    #[test]
    fn a_failure_of_the_socket_is_unreachable_and_retryable() {
        let error = translate("unix:///s", Subject::Engine, Told::RequestTimeoutError);
        assert!(error.is_retryable());
        assert_eq!(
            error.to_string(),
            "the container engine at unix:///s does not respond"
        );
    }

    #[test]
    fn an_error_response_is_not_a_failure_of_the_connection() {
        let error = translate("unix:///s", Subject::Engine, told(500, "out of space"));
        assert!(!error.is_retryable());
        assert_eq!(
            error.to_string(),
            "the container engine failed: out of space"
        );
    }
}
