//! Errors in responses of the API.

use std::borrow::Cow;

use elevo_core::ErrorCode;
use serde_json::{Map, Value};

use super::described::{Described, describe};
use super::exit::Exit;
use crate::output::format::first_line;

/// Describes an API error with its own name, in lower case, and its own advice.
pub(super) fn describe_body(body: &elevo_api::ErrorBody) -> Described {
    let status = body.code().map_or(500, |code| code.http());
    let exit = match status {
        400 | 413 | 415 | 422 => Exit::Usage,
        404 | 410 => Exit::NotFound,
        409 | 412 => Exit::Conflict,
        429 | 503 => Exit::Busy,
        // Other statuses have no exit code of their own.
        _ => Exit::Failed,
    };
    let mut details = match &body.details {
        Value::Object(details) => details.clone(),
        _ => Map::new(),
    };
    details.insert("code".into(), body.code.into());
    if !body.request_id.is_empty() {
        details.insert("requestId".into(), body.request_id.clone().into());
    }
    describe(
        exit,
        body.name.to_ascii_lowercase(),
        details.into(),
        advice(body),
    )
}

/// Returns the server's remediation, rephrased for users of the command line.
fn advice(body: &elevo_api::ErrorBody) -> String {
    let code = body.code();
    let default = code.filter(|code| code.remediation() == body.remediation);
    let text = default
        .and_then(in_commands)
        .unwrap_or(body.remediation.as_str());
    first_line(&with_options(text)).into_owned()
}

/// Advice in terms of the command line, for codes whose remediation names
/// requests, headers or fields.
const IN_COMMANDS: [(ErrorCode, &str); 30] = [
    (
        ErrorCode::Unauthorized,
        "Set ELEVO_API_KEY to a valid key, or name its file with --key-file; `elevo key \
             create` creates one.",
    ),
    (
        ErrorCode::AgentNotFound,
        "List the agents with `elevo agent ls`, or create one with `elevo agent create NAME`.",
    ),
    (
        ErrorCode::WorkspaceNotFound,
        "List the workspaces of a project with `elevo ws ls --project NAME`; completed \
             workspaces are deleted.",
    ),
    (
        ErrorCode::WorkspaceParked,
        "Resume the workspace with `elevo ws resume ID`, or in a sandbox with `elevo sandbox \
             create --workspace ID`.",
    ),
    (
        ErrorCode::SandboxStartFailed,
        "`elevo sandbox show ID` shows the reason and `elevo sandbox logs ID` the log; check \
             that the image runs on this machine.",
    ),
    (
        ErrorCode::IsADirectory,
        "List the directory with `elevo files ls`, copy it with `elevo cp`, or delete it with \
             `elevo files rm --recursive`.",
    ),
    (
        ErrorCode::PathExists,
        "Choose another path, replace a file with --overwrite, or delete it first with `elevo \
             files rm`.",
    ),
    (
        ErrorCode::DirectoryNotEmpty,
        "Delete the files in the directory first, or use --recursive.",
    ),
    (
        ErrorCode::PreconditionFailed,
        "The file has changed since it was read, or exists already: read it again with `elevo \
             files cat --json`, and use its new ETag.",
    ),
    (
        ErrorCode::ReviewClosed,
        "The review was already decided, or a newer change replaced it; `elevo review ls` \
             lists the open reviews.",
    ),
    (
        ErrorCode::MergeConflict,
        "Nothing has landed. Update the workspace (`elevo ws pull`), edit the files that \
             it names until no conflict markers are left, and merge again; or merge without \
             --atomic, which holds conflicts for review.",
    ),
    (
        ErrorCode::VersionConflict,
        "Another request changed the resource first: read the resource again, and repeat the \
             change.",
    ),
    (
        ErrorCode::PatchRefused,
        "Create the patch with `git diff` against the state that --base names.",
    ),
    (
        ErrorCode::StepNotFound,
        "List the steps with `elevo project log NAME`.",
    ),
    (
        ErrorCode::ProcessTimeout,
        "Set a longer --timeout, or run the command with `elevo exec --background` and attach \
             to it with `elevo attach`.",
    ),
    (
        ErrorCode::CommandFailed,
        "The command did not start: check --cwd and that the image has /bin/sh.",
    ),
    (
        ErrorCode::CommandIdTaken,
        "Another request has used this id; run the command again.",
    ),
    (
        ErrorCode::ProcessNotFound,
        "List commands with `elevo ps SANDBOX`; ended commands are removed from the list after \
             a while.",
    ),
    (
        ErrorCode::OutputGone,
        "The command ran once and is not run again. Check its effects before you run it again.",
    ),
    (
        ErrorCode::PtyNotFound,
        "`elevo shell SANDBOX` opens a terminal; a terminal without a client is closed after a \
             while.",
    ),
    (ErrorCode::RateLimited, "Wait a moment, then retry."),
    (ErrorCode::Overloaded, "Wait a moment, then retry."),
    (
        ErrorCode::InvalidRequest,
        "Correct the argument that the message names; `elevo COMMAND --help` explains the \
             arguments.",
    ),
    (
        ErrorCode::NotFound,
        "Check that --server names an Elevo server of the same version as this program.",
    ),
    (
        ErrorCode::MethodNotAllowed,
        "Check that --server names an Elevo server of the same version as this program.",
    ),
    (
        ErrorCode::UnsupportedMediaType,
        "Check that --server names an Elevo server of the same version as this program.",
    ),
    (
        ErrorCode::IdempotencyMismatch,
        "Check whether the command took effect; if not, run it again.",
    ),
    (
        ErrorCode::OutcomeUnknown,
        "Check whether the command took effect; if not, run it again.",
    ),
    (
        ErrorCode::CollectionRunning,
        "Wait until the running operation is complete, then retry.",
    ),
    (
        ErrorCode::InsufficientStorage,
        "Delete sandboxes, workspaces or projects that are no longer needed and collect \
             garbage (`elevo server gc`), or ask the operator to enlarge the server's disk.",
    ),
];

/// Returns the advice for a code in terms of the command line, if the API's
/// advice names requests, headers or fields.
fn in_commands(code: ErrorCode) -> Option<&'static str> {
    let found = IN_COMMANDS.iter().find(|(known, _)| *known == code);
    found.map(|(_, advice)| *advice)
}

/// Requests and fields that the advice of individual errors names, each with
/// the command or option that replaces it.
const IN_OPTIONS: [(&str, &str); 7] = [
    (
        "`GET /api/v1/workspaces?state=parked`",
        "`elevo ws ls --parked`",
    ),
    ("send `move`", "use --move"),
    (
        "or take `nothing`, which rejects the change",
        "or reject the change with `elevo review reject`",
    ),
    ("Leave `strategy` out", "Leave --strategy out"),
    ("Leave out `runtime`", "Leave out --runtime"),
    ("Leave `disk` out", "Leave --disk out"),
    ("that `details` names", "that `elevo ws pull` names"),
];

fn with_options(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for (field, option) in IN_OPTIONS {
        if text.contains(field) {
            text = text.replace(field, option).into();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn body(code: ErrorCode, remediation: &str) -> elevo_api::ErrorBody {
        elevo_api::ErrorBody {
            code: code.number(),
            name: code.name().into(),
            message: "it failed".into(),
            details: json!({}),
            remediation: remediation.into(),
            retry: code.retry().name().into(),
            request_id: String::new(),
        }
    }

    #[test]
    fn default_advice_names_no_requests_and_headers() {
        for code in ErrorCode::ALL {
            let advice = advice(&body(*code, code.remediation()));
            // The command line has no command for tenants.
            if *code == ErrorCode::TenantNotFound {
                continue;
            }
            for sign in [
                "/api/",
                "GET ",
                "POST ",
                "openapi",
                "Idempotency",
                "Bearer",
                "Retry-",
            ] {
                assert!(!advice.contains(sign), "{code}: {advice}");
            }
        }
    }

    /// Reads the advice for single failures from the sources of the server.
    #[test]
    fn advice_of_the_server_names_no_routes() {
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src/app");
        let (mut open, mut files) = (vec![server], 0);
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|it| it.unwrap().path()));
                continue;
            }
            files += 1;
            let text = fs::read_to_string(&path).unwrap();
            let code = text.lines().filter(|line| !line.trim().starts_with("//"));
            let methods = ["`GET ", "`POST ", "`PUT ", "`PATCH ", "`DELETE "];
            let names_route = |line: &str| methods.iter().any(|it| line.contains(it));
            for line in code.filter(|line| names_route(line)) {
                let shown = with_options(line);
                assert!(!names_route(&shown), "{}: {line}", path.display());
            }
        }
        assert!(files > 50, "the sources of the server are not found");
    }

    #[test]
    fn advice_of_a_single_failure_is_kept_with_options_for_fields() {
        let own = "Choose another name, or send `move` to move the tag.";
        assert_eq!(
            advice(&body(ErrorCode::NameTaken, own)),
            "Choose another name, or use --move to move the tag."
        );
        let own = "Ask the owner.";
        assert_eq!(advice(&body(ErrorCode::AgentNotFound, own)), own);
    }
}
