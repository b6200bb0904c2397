use std::borrow::Cow;
use std::error::Error;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value, json};

use super::context::ContextProblem;
use super::demo::DemoProblem;
use super::described::{Advice, Described, plain_failure};
use super::directory::DirectoryProblem;
use super::exit::Exit;
use super::file::FileProblem;
use super::local::LocalProblem;
use super::name::NameProblem;
use super::process::ProcessProblem;
use super::project::ProjectProblem;
use super::protected::Protected;
use super::sandbox::SandboxProblem;
use super::server::ServerProblem;
use super::snapshot::SnapshotProblem;
use super::store::StoreProblem;
use super::tag::TagProblem;
use super::workspace::WorkspaceProblem;
use super::{client, library, server_data};

/// An error in the form that is shown to the user.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) exit: Exit,
    name: Cow<'static, str>,
    /// The messages of the error and its causes, outermost first.
    messages: Vec<String>,
    details: Map<String, Value>,
    remediation: Option<String>,
}

impl Report {
    /// Builds a report from the first error in the chain that this module knows.
    pub(crate) fn new(error: &anyhow::Error) -> Self {
        let described = error.chain().find_map(described);
        let described = described.unwrap_or_else(plain_failure);
        let mut messages: Vec<String> = error.chain().map(one_line).collect();
        messages.dedup();
        Self {
            exit: described.exit,
            name: described.name,
            messages,
            details: described.details.as_object().cloned().unwrap_or_default(),
            remediation: match described.advice {
                Advice::None => None,
                Advice::Text(text) => Some(text.into_owned()),
            },
        }
    }

    /// Builds a report of arguments that clap rejected.
    pub(crate) fn usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let message = text.trim().trim_start_matches("error: ");
        Self {
            exit: Exit::Usage,
            name: "usage".into(),
            messages: vec![message.lines().next().unwrap_or_default().into()],
            details: json!({ "text": message })
                .as_object()
                .cloned()
                .unwrap_or_default(),
            remediation: Some("see `elevo --help` and `elevo COMMAND --help`".into()),
        }
    }

    /// Writes the report to standard error. Ignores a failure, because there is
    /// nowhere else to report it.
    pub(crate) fn print(&self, json: bool) {
        let _ = self.print_to(&mut anstream::stderr().lock(), json);
    }

    /// Writes the report as JSON, or as text with colours.
    pub(crate) fn print_to(&self, out: &mut impl Write, json: bool) -> io::Result<()> {
        match json {
            true => writeln!(out, "{}", self.json()),
            false => self.write(out),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({ "error": {
            "name": self.name,
            "message": self.messages.join(": "),
            "details": self.details,
            "remediation": self.remediation,
        } })
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let error = AnsiColor::Red.on_default().bold();
        let help = AnsiColor::Cyan.on_default().bold();
        let dim = Style::new().dimmed();
        let mut messages = self.messages.iter();
        let first = messages.next().map_or("something failed", String::as_str);
        writeln!(out, "{error}error{error:#}: {first}")?;
        for message in messages {
            writeln!(out, "  {dim}because{dim:#}: {message}")?;
        }
        match &self.remediation {
            Some(remediation) => writeln!(out, "  {help}help{help:#}: {remediation}"),
            None => Ok(()),
        }
    }
}

/// Describes an error, if this module knows its type.
fn described(error: &(dyn Error + 'static)) -> Option<Described> {
    of_command_line(error)
        .or_else(|| library::described(error))
        .or_else(|| server_data::described(error))
        .or_else(|| client::described(error))
}

/// Describes an error of the command line itself.
fn of_command_line(error: &(dyn Error + 'static)) -> Option<Described> {
    macro_rules! first_of {
        ($($area:ty),* $(,)?) => {
            None$(.or_else(|| error.downcast_ref::<$area>().map(<$area>::describe)))*
        };
    }
    first_of!(
        ContextProblem,
        DemoProblem,
        DirectoryProblem,
        FileProblem,
        LocalProblem,
        NameProblem,
        ProcessProblem,
        ProjectProblem,
        Protected,
        SandboxProblem,
        ServerProblem,
        SnapshotProblem,
        StoreProblem,
        TagProblem,
        WorkspaceProblem,
    )
}

/// Returns the error's message with control characters replaced; a path in it
/// may contain some.
fn one_line(error: &(dyn Error + 'static)) -> String {
    error.to_string().replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use elevo_objects::SnapshotId;

    use super::*;

    #[test]
    fn the_first_known_error_in_a_chain_decides_and_all_are_shown() {
        let id = SnapshotId(elevo_objects::Hash::from_bytes([7; 32]));
        let error = Err::<(), _>(elevo_engine::Error::NoSuchSnapshot(id))
            .context("cannot do it")
            .unwrap_err();
        let report = Report::new(&error);
        assert_eq!(report.exit, Exit::NotFound);
        let mut text = Vec::new();
        report
            .write(&mut anstream::StripStream::new(&mut text))
            .unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            format!("error: cannot do it\n  because: snapshot {id} is not stored\n")
        );
        assert_eq!(
            report.json()["error"]["message"],
            format!("cannot do it: snapshot {id} is not stored")
        );
    }

    #[test]
    fn an_unknown_error_is_a_plain_failure() {
        let report = Report::new(&anyhow::anyhow!("odd"));
        assert_eq!((report.exit, &*report.name), (Exit::Failed, "failed"));
    }

    #[test]
    fn advice_follows_the_message() {
        let report = Report::new(&SnapshotProblem::NothingCommitted.into());
        let mut text = Vec::new();
        report
            .write(&mut anstream::StripStream::new(&mut text))
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\n  help: `elevo commit`"), "{text}");
    }
}
