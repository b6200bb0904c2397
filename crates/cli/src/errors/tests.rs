use std::io;

use elevo_objects::{Hash, SnapshotId};

use super::*;

fn id(byte: u8) -> SnapshotId {
    SnapshotId(Hash::from_bytes([byte; 32]))
}

fn denied() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

/// An error of each kind of the command line.
fn errors() -> Vec<anyhow::Error> {
    let path = || "/a/b".into();
    let name = || "it".to_owned();
    let store = [
        StoreProblem::NoStore { from: path() },
        StoreProblem::StoreGone {
            directory: path(),
            store: "/s".into(),
        },
        StoreProblem::StoreInside {
            store: "/a/b/s".into(),
            directory: path(),
        },
        StoreProblem::StoreOfServer { store: path() },
    ];
    let snapshot = [
        SnapshotProblem::UnknownRevision(name()),
        SnapshotProblem::AmbiguousRevision {
            text: "abcdef".into(),
            candidates: vec!["abcdef1".into(), "abcdef2".into()],
        },
        SnapshotProblem::InvalidRevision(name()),
        SnapshotProblem::NothingCommitted,
        SnapshotProblem::NoCheckout,
        SnapshotProblem::NoAncestor {
            text: "v1~9".into(),
            steps: 3,
        },
        SnapshotProblem::HeadElsewhere {
            here: None,
            head: Some(id(7)),
        },
        SnapshotProblem::TooManyChanges { limit: 10 },
    ];
    let tag = [
        TagProblem::TagExists {
            name: name(),
            at: id(1),
        },
        TagProblem::NoSuchTag(name()),
        TagProblem::InvalidTag {
            name: name(),
            why: "it is reserved",
        },
    ];
    let directory = [
        DirectoryProblem::Interrupted {
            directory: path(),
            to: id(2),
            source: None,
        },
        DirectoryProblem::InsideWorking {
            directory: path(),
            working: "/a".into(),
        },
        DirectoryProblem::OutsideWorking {
            path: "/c".into(),
            working: "/a".into(),
        },
        DirectoryProblem::NoWorkingDirectory,
        DirectoryProblem::NotADirectory(path()),
        DirectoryProblem::Busy(path()),
        DirectoryProblem::NoSeed(path()),
    ];
    let workspace = [
        WorkspaceProblem::InvalidName("A".parse::<elevo_workspace::WorkspaceId>().unwrap_err()),
        WorkspaceProblem::Conflicts {
            id: name(),
            conflicts: vec![("a".into(), "both sides changed the same place".into())],
        },
        WorkspaceProblem::Ambiguous {
            text: name(),
            candidates: vec!["it-1".into(), "it-2".into()],
        },
        WorkspaceProblem::InSandbox(name()),
        WorkspaceProblem::InProject(name()),
        WorkspaceProblem::ParkedOnServer(name()),
        WorkspaceProblem::NotParked(name()),
        WorkspaceProblem::NoWorkspaceHere(path()),
        WorkspaceProblem::OtherProject {
            id: name(),
            project: "site".into(),
        },
        WorkspaceProblem::PrivateOfServer,
        WorkspaceProblem::OnlyInStore,
        WorkspaceProblem::OnlyOnServer,
        WorkspaceProblem::Enter {
            path: path(),
            source: denied(),
        },
    ];
    let project = [
        ProjectProblem::UnknownStep {
            project: "site".into(),
            text: "9".into(),
        },
        ProjectProblem::PolicyUnreadable {
            path: path(),
            source: "no rules".into(),
        },
        ProjectProblem::EmptyTar(path()),
        ProjectProblem::MessageOfTar,
        ProjectProblem::NoPath(name()),
        ProjectProblem::NotSent {
            why: "there are conflict markers left",
            kept: path(),
        },
        ProjectProblem::NotEditable,
    ];
    let demo = [
        DemoProblem::NoEngine {
            host: "unix:///s".into(),
            obstacle: "it does not respond".into(),
        },
        DemoProblem::NoTemplate,
        DemoProblem::Command(name()),
        DemoProblem::Unexpected("the fork failed"),
        DemoProblem::Interrupted,
        DemoProblem::Left(vec!["the mount /a".into(), "the process 7".into()]),
    ];
    let sandbox = [
        SandboxProblem::NoTemplate,
        SandboxProblem::UnknownTemplate(name()),
        SandboxProblem::WhichTemplate,
        SandboxProblem::NoTerminal,
        SandboxProblem::CopyEnds,
        SandboxProblem::IsADirectory(path()),
        SandboxProblem::Input(denied()),
        SandboxProblem::InputLost {
            command: "cmd-1".into(),
            source: crate::client::ClientError::KeyUnusable,
        },
    ];
    let server = [
        ServerProblem::AlreadyRunning {
            data: path(),
            url: "http://127.0.0.1:1".into(),
            pid: 7,
        },
        ServerProblem::Settings(vec!["PORT is not a number".into()]),
        ServerProblem::Socket {
            store: path(),
            source: denied(),
        },
        ServerProblem::CutShort,
        ServerProblem::NoAuditLog(path()),
        ServerProblem::CatalogUrl("the URL of the catalog has another form".into()),
    ];
    let process = [
        ProcessProblem::Changing {
            data: path(),
            doing: "starting",
        },
        ProcessProblem::StoppedEarly,
        ProcessProblem::Died {
            signal: Some(9),
            log: path(),
        },
        ProcessProblem::HolderUnknown { lock: path() },
        ProcessProblem::NotSignalled {
            pid: 7,
            source: denied(),
        },
        ProcessProblem::StillStopping { pid: 7 },
        ProcessProblem::NoLog(path()),
    ];
    let context = [
        ContextProblem::Unknown(name()),
        ContextProblem::InvalidName(name()),
        ContextProblem::NotLoggedIn,
        ContextProblem::Unreadable {
            path: path(),
            why: "it is not JSON".into(),
        },
        ContextProblem::NoHome,
        ContextProblem::NoKey,
        ContextProblem::KeyRejected {
            url: "http://127.0.0.1:1".into(),
        },
    ];
    let file = [
        FileProblem::Io {
            action: "read",
            path: path(),
            source: denied(),
        },
        FileProblem::PathNotText(path()),
        FileProblem::ContentNotText(path()),
        FileProblem::TooLarge {
            path: path(),
            limit: 9,
        },
        FileProblem::Editor {
            editor: "ed".into(),
            source: denied(),
        },
        FileProblem::ArchiveToTerminal,
    ];
    let protected = [
        Protected::Unsaved(name()),
        Protected::Unmerged {
            id: name(),
            project: "site".into(),
            changes: 2,
        },
        Protected::Parked(name()),
        Protected::ChangesUnknown {
            id: name(),
            source: anyhow::anyhow!("it is damaged"),
        },
        Protected::NotConfirmed {
            project: "site".into(),
            asked: false,
        },
    ];
    let names = [
        NameProblem::Unknown {
            noun: "agent",
            text: name(),
        },
        NameProblem::Ambiguous {
            noun: "workspace",
            text: name(),
            candidates: vec![("ws-1".into(), Some(name())), ("ws-2".into(), Some(name()))],
        },
    ];
    let mut all: Vec<anyhow::Error> = Vec::new();
    all.extend(store.map(Into::into));
    all.extend(snapshot.map(Into::into));
    all.extend(tag.map(Into::into));
    all.extend(directory.map(Into::into));
    all.extend(workspace.map(Into::into));
    all.extend(project.map(Into::into));
    all.extend(demo.map(Into::into));
    all.extend(sandbox.map(Into::into));
    all.extend(server.map(Into::into));
    all.extend(process.map(Into::into));
    all.extend(context.map(Into::into));
    all.extend(file.map(Into::into));
    all.extend(protected.map(Into::into));
    all.extend(names.map(Into::into));
    all
}

#[test]
fn messages_names_exit_codes_and_advice_are_as_before() {
    let mut text = Vec::new();
    for error in errors() {
        let report = Report::new(&error);
        let name = report.json()["error"]["name"].clone();
        text.extend(format!("[{}] {name}\n", report.exit.code()).into_bytes());
        let out = &mut anstream::StripStream::new(&mut text);
        report.print_to(out, false).unwrap();
        text.push(b'\n');
    }
    insta::assert_snapshot!(String::from_utf8(text).unwrap());
}
