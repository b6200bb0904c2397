//! Errors of starting, finding and calling the server.

use std::error::Error;

use elevo_server::Refusal;
use serde_json::{Value, json};

use super::api::describe_body;
use super::described::{Advice, Described, describe, lossy, plain_failure};
use super::exit::Exit;
use crate::client::error::ClientError;

const ENGINE: &str = "start Docker (`systemctl start docker`), check that you may use its socket \
                      (the group `docker`), or name another engine with --docker-host or \
                      DOCKER_HOST; `elevo doctor` shows details";

/// Returns the exit code, name and advice of an error of the server or its
/// client.
pub(super) fn described(error: &(dyn Error + 'static)) -> Option<Described> {
    if let Some(error) = error.downcast_ref() {
        Some(of_client(error))
    } else if let Some(refusal) = error.downcast_ref::<Refusal>() {
        let exit = match refusal {
            Refusal::NewerCatalog { .. } | Refusal::NewerDirectory { .. } => Exit::Damaged,
            _ => Exit::Conflict,
        };
        Some(describe(
            exit,
            refusal.name(),
            Value::Null,
            refusal.advice(),
        ))
    } else if let Some(error) = error.downcast_ref() {
        of_engine(error)
    } else {
        let error: &std::io::Error = error.downcast_ref()?;
        let is_taken = error.kind() == std::io::ErrorKind::AddrInUse;
        is_taken.then(|| {
            describe(
                Exit::Conflict,
                "port_taken",
                Value::Null,
                "choose other ports with --port N and --metrics-port N; 0 takes a free one",
            )
        })
    }
}

fn of_engine(error: &elevo_sandbox::Error) -> Option<Described> {
    match error {
        elevo_sandbox::Error::Unreachable { host, .. } => Some(describe(
            Exit::Failed,
            "engine_unavailable",
            json!({ "host": host }),
            ENGINE,
        )),
        _ => None,
    }
}

fn unreachable_advice(url: &str) -> &'static str {
    match url.starts_with("https:") {
        true => {
            "check that it runs and that --server is right; name the authority of its certificate \
             with --ca FILE if the system does not trust it"
        }
        false => "check that it runs (`elevo up` starts one) and that --server is right",
    }
}

fn of_client(error: &ClientError) -> Described {
    match error {
        ClientError::NoServer { data } => describe(
            Exit::NotFound,
            "server_not_running",
            json!({ "data": lossy(data) }),
            "start one with `elevo up`, log in to another with `elevo login URL`, or name the data \
             directory with --data DIR",
        ),
        ClientError::Address { text, .. } => describe(
            Exit::Usage,
            "address_invalid",
            json!({ "server": text }),
            Advice::None,
        ),
        ClientError::NoKey { url } => describe(
            Exit::Usage,
            "key_missing",
            json!({ "server": url }),
            "log in with `elevo login URL`, set ELEVO_API_KEY, or name a file with --key-file; \
             `elevo key create` creates a key",
        ),
        ClientError::KeyUnusable => describe(
            Exit::Usage,
            "key_invalid",
            Value::Null,
            "check the content of ELEVO_API_KEY or the file of --key-file",
        ),
        ClientError::Unreachable { url, .. } => describe(
            Exit::Busy,
            "server_unreachable",
            json!({ "server": url }),
            unreachable_advice(url),
        ),
        ClientError::Authorities { path, .. } => describe(
            Exit::Usage,
            "authorities_invalid",
            json!({ "file": lossy(path) }),
            "name a PEM file of certificates with --ca or ELEVO_CA",
        ),
        ClientError::Broken { url, .. } | ClientError::Socket { url, .. } => describe(
            Exit::Failed,
            "connection_lost",
            json!({ "server": url }),
            Advice::None,
        ),
        ClientError::GaveUp(inner) => {
            let inner = of_client(inner);
            describe(
                Exit::Busy,
                "connection_lost",
                inner.details,
                "check that the server runs; `elevo attach` shows the rest of the output",
            )
        }
        ClientError::Refused(body) => describe_body(body),
        ClientError::NotOurs { url, status } => describe(
            Exit::Failed,
            "not_a_server",
            json!({ "server": url, "status": status }),
            "check that --server is right",
        ),
        ClientError::Setup(_)
        | ClientError::Answer(_)
        | ClientError::Stream(_)
        | ClientError::TooLarge(_)
        | ClientError::Told { .. } => plain_failure(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Report;
    use super::*;

    #[test]
    fn errors_of_the_api_keep_name_advice_and_request() {
        let body = elevo_api::ErrorBody {
            code: 2001,
            name: "SANDBOX_NOT_FOUND".into(),
            message: "there is no sandbox `x`".into(),
            details: json!({ "sandboxId": "x" }),
            remediation: "Check the id.".into(),
            retry: "never".into(),
            request_id: "req-1".into(),
        };
        let report = Report::new(&ClientError::Refused(Box::new(body)).into());
        assert_eq!(report.exit, Exit::NotFound);
        let json = report.json();
        assert_eq!(json["error"]["name"], "sandbox_not_found");
        assert_eq!(json["error"]["remediation"], "Check the id.");
        let details = json!({ "sandboxId": "x", "code": 2001, "requestId": "req-1" });
        assert_eq!(json["error"]["details"], details);
    }
}
