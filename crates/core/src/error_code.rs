use std::fmt;

/// Whether the same request may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request always fails.
    Never,
    /// The request may succeed after the state it depends on has changed.
    AfterChange,
    /// The request may succeed later, without any change.
    Later,
    /// The request may have had an effect. A retry with the same idempotency key
    /// finds out, and does not repeat the effect.
    Unknown,
}

impl Retry {
    /// Returns the text for `docs/errors.md`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Never => "no",
            Self::AfterChange => "after the cause has changed",
            Self::Later => "yes, after a short wait",
            Self::Unknown => "with the same `Idempotency-Key`",
        }
    }

    /// Returns the value of `retry` in an error of the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::AfterChange => "afterChange",
            Self::Later => "later",
            Self::Unknown => "unknown",
        }
    }
}

/// Each entry of the table defines a code, its properties and its row in
/// `docs/errors.md`.
macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $http:literal, $grpc:literal, $retry:ident, $remedy:literal;)*) => {
        /// Stable numbers and names of errors, for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum ErrorCode {
            $(#[doc = $remedy] $variant = $number,)*
        }

        impl ErrorCode {
            /// All codes, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The number on the wire.
            pub const fn number(self) -> u16 {
                self as u16
            }

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The status of the HTTP response.
            pub const fn http(self) -> u16 {
                match self { $(Self::$variant => $http),* }
            }

            /// The gRPC status.
            pub const fn grpc(self) -> &'static str {
                match self { $(Self::$variant => $grpc),* }
            }

            /// Whether the same request may succeed later.
            pub const fn retry(self) -> Retry {
                match self { $(Self::$variant => Retry::$retry),* }
            }

            /// The default remediation, for failures without their own
            /// remediation.
            pub const fn remediation(self) -> &'static str {
                match self { $(Self::$variant => $remedy),* }
            }
        }
    };
}

error_codes! {
    Unauthorized = 1001, "UNAUTHORIZED", 401, "UNAUTHENTICATED", Never,
        "Send a valid key as `Authorization: Bearer KEY` or `X-API-Key: KEY`; `elevo key create` creates one.";
    Forbidden = 1002, "FORBIDDEN", 403, "PERMISSION_DENIED", Never,
        "Use a key with the scope that the message names; `elevo key create --scope` creates one.";
    KeyNotFound = 1003, "KEY_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List the keys with `elevo key ls`.";
    AgentNotFound = 1004, "AGENT_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List the agents with `GET /api/v1/agents`; create one with `POST /api/v1/agents`.";
    NameTaken = 1005, "NAME_TAKEN", 409, "ALREADY_EXISTS", Never,
        "Choose another name.";
    TenantSuspended = 1006, "TENANT_SUSPENDED", 403, "PERMISSION_DENIED", AfterChange,
        "Ask the operator of the server why the tenant is suspended.";
    QuotaExceeded = 1007, "QUOTA_EXCEEDED", 429, "RESOURCE_EXHAUSTED", AfterChange,
        "Delete sandboxes, workspaces or projects that are no longer needed, or ask the operator to raise the limits of the tenant.";
    TenantNotFound = 1008, "TENANT_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List the tenants with `GET /api/v1/tenants`.";
    NameAmbiguous = 1009, "NAME_AMBIGUOUS", 409, "FAILED_PRECONDITION", Never,
        "Use the id of one of the workspaces in `details`.";
    OriginNotAllowed = 1010, "ORIGIN_NOT_ALLOWED", 403, "PERMISSION_DENIED", AfterChange,
        "Ask the operator of the server to add the origin of the page to ALLOWED_ORIGINS.";
    SandboxNotFound = 2001, "SANDBOX_NOT_FOUND", 404, "NOT_FOUND", Never,
        "Check the id; sandboxes are deleted when they expire. `elevo sandbox ls` lists yours.";
    TemplateNotFound = 2002, "TEMPLATE_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List templates with `elevo template ls`; create one with `elevo template create IMAGE`.";
    SandboxLimitExceeded = 2003, "SANDBOX_LIMIT_EXCEEDED", 429, "RESOURCE_EXHAUSTED", AfterChange,
        "Delete sandboxes you no longer need, or ask the operator to raise the limit.";
    SandboxWrongState = 2004, "SANDBOX_WRONG_STATE", 409, "FAILED_PRECONDITION", AfterChange,
        "Start or stop the sandbox, or wait until it has the state that the request needs.";
    SandboxStartFailed = 2005, "SANDBOX_START_FAILED", 502, "INTERNAL", Later,
        "Check `reason` and the logs of the sandbox, and that the image runs on this machine.";
    ResourceRefused = 2006, "RESOURCE_REFUSED", 422, "INVALID_ARGUMENT", Never,
        "Request no more than the limits in the message.";
    LifetimeExceeded = 2007, "LIFETIME_EXCEEDED", 422, "OUT_OF_RANGE", Never,
        "Extend by no more than the message allows, or take a snapshot and continue in a new sandbox.";
    SnapshotNotFound = 2008, "SNAPSHOT_NOT_FOUND", 404, "NOT_FOUND", Never,
        "Check the id; the snapshot must belong to your tenant.";
    ImageUnavailable = 2009, "IMAGE_UNAVAILABLE", 422, "FAILED_PRECONDITION", AfterChange,
        "Check the name of the image and that the container engine can reach its registry, or load it with `docker load`.";
    AgentUnreachable = 2010, "AGENT_UNREACHABLE", 503, "UNAVAILABLE", Unknown,
        "Wait a moment and retry; if the error persists, stop and start the sandbox.";
    WorkspaceBusy = 2011, "WORKSPACE_BUSY", 409, "ABORTED", Later,
        "Another snapshot, fork or restore of the workspace is running; retry when it is complete.";
    ArchiveRefused = 2012, "ARCHIVE_REFUSED", 422, "INVALID_ARGUMENT", Never,
        "Send a tar (plain, gzip or zstd) whose paths stay inside the directory.";
    PathNotFound = 2013, "PATH_NOT_FOUND", 404, "NOT_FOUND", Never,
        "Check the path; paths start at the root of the workspace or project.";
    DiskFull = 2014, "DISK_FULL", 507, "RESOURCE_EXHAUSTED", AfterChange,
        "Delete files in the workspace, or create a workspace with a larger disk.";
    IsADirectory = 2015, "IS_A_DIRECTORY", 409, "FAILED_PRECONDITION", Never,
        "Name a file, not a directory. A directory is listed, downloaded as an archive, or deleted with `recursive`.";
    NotADirectory = 2016, "NOT_A_DIRECTORY", 409, "FAILED_PRECONDITION", Never,
        "Check the path: a part of it is not a directory.";
    NotAFile = 2017, "NOT_A_FILE", 409, "FAILED_PRECONDITION", Never,
        "Name a regular file; pipes, sockets and devices have no content to download.";
    PathExists = 2018, "PATH_EXISTS", 409, "ALREADY_EXISTS", AfterChange,
        "Choose another path, set `overwrite` to replace a file, or delete the file first.";
    DirectoryNotEmpty = 2019, "DIRECTORY_NOT_EMPTY", 409, "FAILED_PRECONDITION", AfterChange,
        "Delete the files in the directory first, or set `recursive`.";
    PreconditionFailed = 2020, "PRECONDITION_FAILED", 412, "FAILED_PRECONDITION", AfterChange,
        "The file has changed since it was read, or exists already. Read it again, and send the change with its current `ETag`.";
    RangeNotSatisfiable = 2021, "RANGE_NOT_SATISFIABLE", 416, "OUT_OF_RANGE", AfterChange,
        "Request a range that starts before the end of the file.";
    TooManyDirectories = 2022, "TOO_MANY_DIRECTORIES", 422, "RESOURCE_EXHAUSTED", AfterChange,
        "Watch a directory with fewer directories in it.";
    PortNotOpen = 2023, "PORT_NOT_OPEN", 502, "UNAVAILABLE", AfterChange,
        "Start a server in the sandbox that listens on this port of 127.0.0.1 or 0.0.0.0, then retry.";
    PortFailed = 2024, "PORT_FAILED", 502, "UNAVAILABLE", Unknown,
        "Check the program that listens on the port: it must respond in time and with valid HTTP.";
    ProjectNotFound = 3001, "PROJECT_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List projects with `elevo project ls`.";
    WorkspaceNotFound = 3002, "WORKSPACE_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List workspaces with `GET /api/v1/workspaces`; completed workspaces are deleted.";
    ReviewNotFound = 3003, "REVIEW_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List reviews with `elevo review ls`.";
    ReviewClosed = 3004, "REVIEW_CLOSED", 409, "FAILED_PRECONDITION", Never,
        "The review was already decided, or a newer change replaced it; `successor` names the newer review.";
    MergeConflict = 3005, "MERGE_CONFLICT", 409, "ABORTED", AfterChange,
        "Nothing has landed. Update the workspace (`elevo ws pull`), edit the files that `details` names until no conflict markers are left, and merge again; or merge without `atomic`, which holds conflicts for review.";
    PolicyRefused = 3006, "POLICY_REFUSED", 403, "PERMISSION_DENIED", AfterChange,
        "Request only changes that the policy allows, or change the policy with `elevo project policy`.";
    PolicyInvalid = 3007, "POLICY_INVALID", 422, "INVALID_ARGUMENT", Never,
        "Correct the rules that the message names; docs/permissions.md has examples.";
    VersionConflict = 3008, "VERSION_CONFLICT", 409, "ABORTED", AfterChange,
        "Another request changed the resource first: read the resource again, and send the change with its current version.";
    TooManyChanges = 3009, "TOO_MANY_CHANGES", 422, "OUT_OF_RANGE", Never,
        "Merge fewer changes at once, or import large directories with `elevo project import`.";
    PatchRefused = 3010, "PATCH_REFUSED", 422, "INVALID_ARGUMENT", Never,
        "Create the patch with `git diff` against the snapshot that `base` names.";
    WorkspaceReadOnly = 3011, "WORKSPACE_READ_ONLY", 409, "FAILED_PRECONDITION", Never,
        "A read-only workspace has no changes to merge; create a writable workspace.";
    VersionDropped = 3012, "VERSION_DROPPED", 410, "NOT_FOUND", Never,
        "The project's retention did not keep the content of this version. Choose a version that `elevo project log` shows as kept; tags keep versions.";
    TagNotFound = 3013, "TAG_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List the tags with `elevo project tag NAME`.";
    StepNotFound = 3014, "STEP_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List the steps with `GET /api/v1/projects/{id}/steps`.";
    WorkspaceParked = 3015, "WORKSPACE_PARKED", 409, "FAILED_PRECONDITION", AfterChange,
        "Resume the workspace with `POST /api/v1/workspaces/{id}/resume`, or in a sandbox.";
    WorkspaceInUse = 3016, "WORKSPACE_IN_USE", 409, "FAILED_PRECONDITION", AfterChange,
        "Delete the sandbox that uses the workspace, or fork the workspace.";
    ProcessTimeout = 4001, "PROCESS_TIMEOUT", 422, "DEADLINE_EXCEEDED", Never,
        "Set a longer `timeout`, or run the command in the background and attach to it.";
    CommandFailed = 4002, "COMMAND_FAILED", 422, "FAILED_PRECONDITION", Never,
        "The command did not start: check `cwd`, and that the image has the first of `args`, or `/bin/sh` for `command`.";
    ProcessNotFound = 4003, "PROCESS_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List commands with `GET /api/v1/sandboxes/{id}/process`; the oldest ended commands are removed from the list.";
    ProcessLimitExceeded = 4004, "PROCESS_LIMIT_EXCEEDED", 429, "RESOURCE_EXHAUSTED", AfterChange,
        "Wait until running commands end, or kill some.";
    OutputGone = 4005, "OUTPUT_GONE", 410, "NOT_FOUND", Never,
        "The command ran once and is not run again. Check its effects; to run it again, send it with a new `Idempotency-Key` and `commandId`.";
    CommandIdTaken = 4006, "COMMAND_ID_TAKEN", 409, "ALREADY_EXISTS", Never,
        "Use a new `commandId` for another command. The same request with the same key attaches to the first command.";
    PtyNotFound = 4101, "PTY_NOT_FOUND", 404, "NOT_FOUND", Never,
        "Create a terminal first; a terminal without a client is closed after a while.";
    PtyLimitExceeded = 4102, "PTY_LIMIT_EXCEEDED", 429, "RESOURCE_EXHAUSTED", AfterChange,
        "Close a terminal of this sandbox first.";
    InternalError = 9000, "INTERNAL_ERROR", 500, "INTERNAL", Unknown,
        "Report this error and its request id to the operator of the server; the server's log has the cause.";
    RateLimited = 9001, "RATE_LIMITED", 429, "RESOURCE_EXHAUSTED", Later,
        "Wait for the number of seconds in `Retry-After`, then retry.";
    InvalidRequest = 9002, "INVALID_REQUEST", 400, "INVALID_ARGUMENT", Never,
        "Correct the part of the request that the message names; the description of the API is at `/openapi.json`.";
    NotFound = 9003, "NOT_FOUND", 404, "NOT_FOUND", Never,
        "Check the path; the description of the API is at `/openapi.json`.";
    MethodNotAllowed = 9004, "METHOD_NOT_ALLOWED", 405, "UNIMPLEMENTED", Never,
        "Use a method that the header `Allow` of the response names.";
    PayloadTooLarge = 9005, "PAYLOAD_TOO_LARGE", 413, "INVALID_ARGUMENT", Never,
        "Send less data in one request.";
    UnsupportedMediaType = 9006, "UNSUPPORTED_MEDIA_TYPE", 415, "INVALID_ARGUMENT", Never,
        "Send `Content-Type: application/json`.";
    RuntimeUnavailable = 9007, "RUNTIME_UNAVAILABLE", 503, "UNAVAILABLE", Later,
        "Start the container engine; `elevo doctor` shows what the server detects.";
    ShuttingDown = 9008, "SHUTTING_DOWN", 503, "UNAVAILABLE", Later,
        "Retry when the server is running again.";
    IdempotencyMismatch = 9009, "IDEMPOTENCY_MISMATCH", 422, "INVALID_ARGUMENT", Never,
        "Use a new `Idempotency-Key` for another request.";
    IdempotencyRunning = 9010, "IDEMPOTENCY_RUNNING", 409, "ABORTED", Later,
        "The first request with this key is still running; retry to get its response.";
    Overloaded = 9011, "OVERLOADED", 503, "UNAVAILABLE", Later,
        "Wait for the number of seconds in `Retry-After`, then retry.";
    StorageFailed = 9012, "STORAGE_FAILED", 503, "UNAVAILABLE", Unknown,
        "Check the disk with the data directory; the server's log has the cause.";
    CollectionRunning = 9013, "COLLECTION_RUNNING", 409, "ABORTED", Later,
        "Wait until the running collection is complete; `GET /api/v1/gc` shows its progress.";
    OutcomeUnknown = 9014, "OUTCOME_UNKNOWN", 409, "ABORTED", AfterChange,
        "Check whether the request took effect; if not, send it with a new `Idempotency-Key`.";
    InsufficientStorage = 9015, "INSUFFICIENT_STORAGE", 507, "RESOURCE_EXHAUSTED", Later,
        "Delete sandboxes, workspaces or projects that are no longer needed and collect garbage (`POST /api/v1/gc`), or ask the operator to enlarge the server's disk.";
    SecretUnreadable = 9016, "SECRET_UNREADABLE", 500, "FAILED_PRECONDITION", AfterChange,
        "Ask the operator to repair the key file of the server (`SECRETS_KEY_FILE`, see docs/operations.md), or create the sandbox or webhook again.";
    WebhookNotFound = 9017, "WEBHOOK_NOT_FOUND", 404, "NOT_FOUND", Never,
        "List webhooks with `elevo webhook ls`.";
    OnAnotherServer = 9018, "ON_ANOTHER_SERVER", 409, "FAILED_PRECONDITION", AfterChange,
        "Send the request to the server that created the sandbox or workspace; each server has its own sandboxes and workspaces.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Generates `docs/errors.md` from the table.
pub fn errors_page() -> String {
    let mut page = String::from(
        "# Errors\n\n\
         Generated from the table in `crates/core/src/error_code.rs`; a test fails when this page differs.\n\n\
         Every error of the REST API has the same form:\n\n\
         ```json\n\
         {\"error\": {\"code\": 2001, \"name\": \"SANDBOX_NOT_FOUND\", \"message\": \"there is no sandbox `sbx-1`\",\n           \
         \"details\": {\"sandboxId\": \"sbx-1\"}, \"remediation\": \"Check the id …\",\n           \
         \"retry\": \"never\", \"requestId\": \"req-…\"}}\n\
         ```\n\n\
         `retry` says whether the same request may succeed later: `never`, `afterChange` (when the cause has changed), \
         `later` (without a change), or `unknown`: the request may have had an effect, and a retry with the \
         same `Idempotency-Key` does not repeat it. A client must treat other values like `never`.\n\n\
         1000–1999 are keys and rights, 2000–2999 sandboxes, 3000–3999 projects, 4000–4099 commands, \
         4100–4199 terminals, 9000–9999 the service itself. A response with the status 429 or 503 has `Retry-After` if a retry without a change may succeed.\n\n\
         | code | name | HTTP | gRPC | does a retry help? | what to do |\n|---|---|---|---|---|---|\n",
    );
    for code in ErrorCode::ALL {
        page += &format!(
            "| {} | `{}` | {} | `{}` | {} | {} |\n",
            code.number(),
            code.name(),
            code.http(),
            code.grpc(),
            code.retry().words(),
            code.remediation(),
        );
    }
    page
}

/// Generates `openapi/errors.json` from the table: the codes as clients in other
/// languages need them, with the name of an error class and of its group.
pub fn errors_json() -> String {
    let entries = ErrorCode::ALL.iter().map(|code| {
        // The texts of the table have no characters that JSON escapes in another
        // way than Rust does.
        format!(
            "    {{\"code\": {}, \"name\": {:?}, \"class\": {:?}, \"group\": {:?}, \"status\": {}, \"retry\": {:?}, \"remediation\": {:?}}}",
            code.number(),
            code.name(),
            class_name(*code),
            class_group(*code),
            code.http(),
            code.retry().name(),
            code.remediation(),
        )
    });
    let entries = entries.collect::<Vec<_>>().join(",\n");
    format!("{{\n  \"errors\": [\n{entries}\n  ]\n}}\n")
}

/// Returns the name of a code's class in the SDKs, such as
/// `SandboxNotFoundError`. Codes that are as general as their group have the
/// name of the group.
fn class_name(code: ErrorCode) -> String {
    let words = code.name().trim_end_matches("_ERROR").split('_');
    let words = words.map(|word| match word {
        "PTY" => word.to_owned(),
        _ => word[..1].to_owned() + &word[1..].to_lowercase(),
    });
    words.collect::<String>() + "Error"
}

/// Returns the name of the group of a code's class.
fn class_group(code: ErrorCode) -> &'static str {
    match code.http() {
        401 | 403 => "AuthError",
        404 | 410 => "NotFoundError",
        409 | 412 => "ConflictError",
        413 | 429 | 507 => "LimitError",
        500.. => "UnavailableError",
        _ => "InvalidRequestError",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        for (at, code) in ErrorCode::ALL.iter().enumerate() {
            for other in &ErrorCode::ALL[at + 1..] {
                assert!(code.number() < other.number(), "{other:?}");
                assert_ne!(code.name(), other.name());
            }
        }
    }

    #[test]
    fn names_of_classes_are_unique() {
        let classes = ErrorCode::ALL.iter().map(|code| class_name(*code));
        let classes: std::collections::BTreeSet<_> = classes.collect();
        assert_eq!(classes.len(), ErrorCode::ALL.len());
        assert!(classes.contains("PTYNotFoundError"));
        assert!(classes.contains("InternalError"));
    }

    #[test]
    fn the_page_of_errors_is_up_to_date() {
        check("docs/errors.md", &errors_page());
    }

    #[test]
    fn the_list_of_errors_for_clients_is_up_to_date() {
        check("openapi/errors.json", &errors_json());
    }

    fn check(name: &str, text: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = path.join(name);
        if std::fs::read_to_string(&path).unwrap_or_default() == text {
            return;
        }
        #[allow(clippy::disallowed_methods, reason = "updates the file on request")]
        if std::env::var("ELEVO_UPDATE").is_ok() {
            std::fs::write(path, text).unwrap();
        }
        panic!("{name} is stale; run this test with ELEVO_UPDATE=1");
    }
}
