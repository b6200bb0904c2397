//! Errors of starting, finding and calling the server.

use std::error::Error;

use serde_json::json;

use crate::client::error::ClientError;
use crate::errors::{Exit, Known, Problem, lossy};

const ENGINE: &str = "start Docker (`systemctl start docker`), check that you may use its socket \
                      (the group `docker`), or name another engine with --docker-host or \
                      DOCKER_HOST; `elevo doctor` shows details";

/// Returns the exit code, name and advice of an error of the server or its
/// client.
pub(super) fn known(error: &(dyn Error + 'static)) -> Option<Known> {
    if let Some(error) = error.downcast_ref() {
        Some(of_client(error))
    } else if let Some(refusal) = error.downcast_ref::<elevo_server::Refusal>() {
        Some(Known::new(Exit::Conflict, refusal.name()).advice(refusal.advice()))
    } else if let Some(error) = error.downcast_ref() {
        of_engine(error)
    } else {
        let error: &std::io::Error = error.downcast_ref()?;
        let is_taken = error.kind() == std::io::ErrorKind::AddrInUse;
        is_taken.then(|| {
            Known::new(Exit::Conflict, "port_taken")
                .advice("choose other ports with --port N and --metrics-port N; 0 takes a free one")
        })
    }
}

pub(super) fn of_problem(problem: &Problem) -> Known {
    let usage = |name: &'static str| Known::new(Exit::Usage, name);
    match problem {
        Problem::ServerRunning { data, url, pid } => Known::new(Exit::Conflict, "server_running")
            .with(json!({ "data": lossy(data), "server": url, "pid": pid }))
            .advice("use that server, stop it first, or name another directory with --data DIR"),
        Problem::Settings(problems) => usage("settings_invalid")
            .with(json!({ "problems": problems }))
            .advice("`workspace-server --help` lists all settings"),
        Problem::InSandbox(id) => Known::new(Exit::Conflict, "workspace_in_sandbox")
            .with(json!({ "workspace": id }))
            .advice(format!("`elevo sandbox rm {id}` deletes both")),
        Problem::ServerSocket { store, .. } => Known::new(Exit::Busy, "store_busy")
            .with(json!({ "store": lossy(store) }))
            .advice("`elevo up` must run as the same user; read its log, or stop it first"),
        Problem::PrivateOfServer => Known::new(Exit::Usage, "provider_unsupported")
            .advice("leave out --provider, or use a store that no server holds"),
        Problem::Enter { path, .. } => Known::new(Exit::Failed, "namespace_refused")
            .with(json!({ "path": lossy(path) }))
            .advice("`elevo doctor` shows what the machine lacks"),
        Problem::InProject(id) => Known::new(Exit::Conflict, "workspace_in_project")
            .with(json!({ "workspace": id }))
            .advice(format!(
                "`elevo ws complete {id}` merges and deletes it, `elevo ws rm --project NAME \
                 --discard {id}` deletes it with its unmerged changes"
            )),
        Problem::ParkedOnServer(id) => Known::new(Exit::Conflict, "workspace_parked")
            .with(json!({ "workspace": id }))
            .advice(format!(
                "`elevo sandbox create --workspace {id}` continues in it, `elevo ws rm --parked {id}` \
                 deletes it"
            )),
        Problem::NotParked(id) => Known::new(Exit::Conflict, "workspace_not_parked")
            .with(json!({ "workspace": id }))
            .advice("`elevo ws ls --parked` lists the parked workspaces"),
        Problem::NoWorkspaceHere(path) => Known::new(Exit::NotFound, "workspace_not_found")
            .with(json!({ "directory": lossy(path) }))
            .advice("name a workspace; `elevo ws ls --project NAME` lists the workspaces of a project"),
        Problem::OtherProject { id, project } => Known::new(Exit::NotFound, "workspace_not_found")
            .with(json!({ "workspace": id, "project": project }))
            .advice(format!(
                "`elevo ws ls --project {project}` lists its workspaces"
            )),
        Problem::UnknownStep { project, text } => Known::new(Exit::NotFound, "snapshot_not_found")
            .with(json!({ "project": project, "snapshot": text }))
            .advice(format!("`elevo project log {project}` lists the steps")),
        Problem::PolicyUnreadable { path, .. } => usage("policy_invalid")
            .with(json!({ "path": lossy(path) }))
            .advice("`elevo project policy NAME` prints a policy to start from"),
        Problem::NoText(path) => usage("not_text").with(json!({ "path": lossy(path) })),
        Problem::EmptyTar(path) => usage("not_a_tar")
            .with(json!({ "path": lossy(path) }))
            .advice("the project was not changed; check whether the program that wrote the archive failed"),
        Problem::FileTooLarge { path, limit } => {
            usage("file_too_large").with(json!({ "path": lossy(path), "limit": limit }))
        }
        Problem::Editor { editor, .. } => Known::new(Exit::Failed, "editor_failed")
            .with(json!({ "editor": editor }))
            .advice("set VISUAL or EDITOR to the command of your editor"),
        Problem::NotSent { kept, .. } => Known::new(Exit::Failed, "not_sent")
            .with(json!({ "path": lossy(kept) }))
            .advice(format!("your edited text is in {}", kept.display())),
        Problem::NotEditable => usage("not_editable")
            .advice("choose a side with --ours or --theirs, or send a file with --file FILE"),
        Problem::ArchiveToTerminal => {
            usage("archive_to_terminal").advice("write it to a file or into a pipe: `> FILE`")
        }
        Problem::CutShort => Known::new(Exit::Failed, "cut_short"),
        Problem::NoTemplate => Known::new(Exit::NotFound, "template_not_found")
            .advice("add an image with `elevo template add IMAGE`"),
        Problem::WhichTemplate => {
            usage("template_missing").advice("name one; `elevo template ls` lists them")
        }
        Problem::NotText(path) => usage("path_invalid").with(json!({ "path": lossy(path) })),
        Problem::NoTerminal => usage("not_a_terminal")
            .advice("`elevo exec SANDBOX -- COMMAND` runs a command without one"),
        Problem::CopyEnds => usage("usage").advice("see `elevo cp --help`"),
        Problem::IsADirectory(path) => {
            Known::new(Exit::Conflict, "is_a_directory").with(json!({ "path": lossy(path) }))
        }
        Problem::InputLost { command } => Known::new(Exit::Failed, "input_lost")
            .with(json!({ "commandId": command }))
            .advice(format!(
                "the command is still running: `elevo attach SANDBOX {command}` shows its output, \
                 `elevo kill SANDBOX {command}` stops it"
            )),
        _ => Known::new(Exit::Failed, "failed"),
    }
}

fn of_engine(error: &elevo_sandbox::Error) -> Option<Known> {
    match error {
        elevo_sandbox::Error::Unreachable { host, .. } => Some(
            Known::new(Exit::Failed, "engine_unavailable")
                .with(json!({ "host": host }))
                .advice(ENGINE),
        ),
        _ => None,
    }
}

fn of_client(error: &ClientError) -> Known {
    match error {
        ClientError::NoServer { data } => Known::new(Exit::NotFound, "server_not_running")
            .with(json!({ "data": lossy(data) }))
            .advice(
                "start one with `elevo up`, or name another with --server URL or its data directory \
                 with --data DIR",
            ),
        ClientError::Address { text, .. } => {
            Known::new(Exit::Usage, "address_invalid").with(json!({ "server": text }))
        }
        ClientError::NoKey { url } => Known::new(Exit::Usage, "key_missing")
            .with(json!({ "server": url }))
            .advice(
                "set ELEVO_API_KEY, or name a file with --key-file; `elevo key create` creates a key",
            ),
        ClientError::KeyUnusable => Known::new(Exit::Usage, "key_invalid")
            .advice("check the content of ELEVO_API_KEY or the file of --key-file"),
        ClientError::Unreachable { url, .. } => Known::new(Exit::Busy, "server_unreachable")
            .with(json!({ "server": url }))
            .advice(match url.starts_with("https:") {
                true => {
                    "check that it runs and that --server is right; name the authority of its \
                     certificate with --ca FILE if the system does not trust it"
                }
                false => {
                    "check that it runs (`elevo up` starts one) and that --server is right"
                }
            }),
        ClientError::Authorities { path, .. } => Known::new(Exit::Usage, "authorities_invalid")
            .with(json!({ "file": lossy(path) }))
            .advice("name a PEM file of certificates with --ca or ELEVO_CA"),
        ClientError::Broken { url, .. } | ClientError::Socket { url, .. } => {
            Known::new(Exit::Failed, "connection_lost").with(json!({ "server": url }))
        }
        ClientError::GaveUp(inner) => {
            let inner = of_client(inner);
            Known::new(Exit::Busy, "connection_lost")
                .with(inner.details)
                .advice("check that the server runs; `elevo attach` shows the rest of the output")
        }
        ClientError::Refused(body) => of_api(body),
        ClientError::NotOurs { url, status } => Known::new(Exit::Failed, "not_a_server")
            .with(json!({ "server": url, "status": status }))
            .advice("check that --server is right"),
        ClientError::Setup(_)
        | ClientError::Answer(_)
        | ClientError::Stream(_)
        | ClientError::TooLarge(_)
        | ClientError::Told { .. } => Known::new(Exit::Failed, "failed"),
    }
}

/// Keeps the name of an API error, in lower case, and its advice.
fn of_api(body: &elevo_api::ErrorBody) -> Known {
    let status = body.code().map_or(500, |code| code.http());
    let exit = match status {
        400 | 413 | 415 | 422 => Exit::Usage,
        404 | 410 => Exit::NotFound,
        409 => Exit::Conflict,
        429 | 503 => Exit::Busy,
        _ => Exit::Failed,
    };
    let mut details = match &body.details {
        serde_json::Value::Object(details) => details.clone(),
        _ => serde_json::Map::new(),
    };
    details.insert("code".into(), body.code.into());
    if !body.request_id.is_empty() {
        details.insert("requestId".into(), body.request_id.clone().into());
    }
    let remediation = crate::output::format::first_line(&body.remediation).into_owned();
    Known::new(exit, body.name.to_ascii_lowercase())
        .with(details.into())
        .advice(remediation)
}

#[cfg(test)]
mod tests {
    use super::super::Report;
    use super::*;

    #[test]
    fn errors_of_the_api_keep_name_advice_and_request() {
        let body = elevo_api::ErrorBody {
            code: 2001,
            name: "SANDBOX_NOT_FOUND".into(),
            message: "there is no sandbox `x`".into(),
            details: json!({ "sandboxId": "x" }),
            remediation: "Check the id.".into(),
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
