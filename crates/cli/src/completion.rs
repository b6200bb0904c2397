//! Values that a shell completes: names and ids of things on the server and in
//! the store. Another process of this program lists them, so that a slow server
//! delays a completion only for a moment.

use std::io::Read;
use std::process::{Command as Process, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use elevo_workspace::ProviderKind;
use serde_json::Value;

/// The variable that asks for completions instead of a command.
pub(crate) const VARIABLE: &str = "ELEVO_COMPLETE";

/// How long a completion waits for the list of values.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum bytes of a list.
const LARGEST: u64 = 1 << 20;

/// A command that lists values, and the fields of its JSON that have them.
struct Source {
    words: &'static [&'static str],
    fields: &'static [&'static str],
}

const fn source(words: &'static [&'static str], fields: &'static [&'static str]) -> Source {
    Source { words, fields }
}

static PROJECTS: Source = source(&["project", "ls", "--json"], &["name"]);
static SANDBOXES: Source = source(&["sandbox", "ls", "--json"], &["id"]);
static REVIEWS: Source = source(&["review", "ls", "--json"], &["id"]);
static AGENTS: Source = source(&["agent", "ls", "--json"], &["name"]);
static KEYS: Source = source(&["key", "ls", "--json"], &["id"]);
static TEMPLATES: Source = source(&["template", "ls", "--json"], &["name"]);
static WEBHOOKS: Source = source(&["webhook", "ls", "--json"], &["id"]);
static CONTEXTS: Source = source(&["context", "ls", "--json"], &["context"]);
static WORKSPACES: Source = source(&["ws", "ls", "--json"], &["workspace", "id"]);
static TAGS: Source = source(&["tag", "--json"], &["tag"]);

/// Adds completions of values to a command tree.
pub(crate) fn with_values(command: Command) -> Command {
    below(command, "")
}

fn below(command: Command, noun: &str) -> Command {
    let name = command.get_name().to_owned();
    let first = command.get_positionals().next();
    let first = first.map(|arg| arg.get_id().clone());
    let with_source = |arg: Arg| {
        let is_first = first.as_ref() == Some(arg.get_id());
        with_source(arg, is_first, noun, &name)
    };
    let command = command.mut_args(with_source);
    command.mut_subcommands(|command| below(command, &name))
}

/// Adds the completion of an argument of the command `noun verb`.
fn with_source(arg: Arg, is_first: bool, noun: &str, verb: &str) -> Arg {
    if arg.get_id() == "provider" {
        return arg.add(ArgValueCandidates::new(|| {
            let names = ProviderKind::ALL.map(ProviderKind::name);
            names.map(CompletionCandidate::new).into()
        }));
    }
    match source_of(&arg, is_first, noun, verb) {
        Some(source) => arg.add(ArgValueCandidates::new(move || source.candidates())),
        None => arg,
    }
}

fn source_of(arg: &Arg, is_first: bool, noun: &str, verb: &str) -> Option<&'static Source> {
    let id = arg.get_id().as_str();
    if !arg.get_action().takes_values() {
        return None;
    }
    let mut values = arg.get_value_names().into_iter().flatten();
    match (noun, verb) {
        _ if id == "project" => Some(&PROJECTS),
        _ if id == "context" => Some(&CONTEXTS),
        _ if id == "agent" => Some(&AGENTS),
        _ if id == "sandbox" => Some(&SANDBOXES),
        _ if id == "revision" || values.any(|value| value == "REV") => Some(&TAGS),
        (_, "create" | "add" | "ls") => None,
        ("project", _) if is_first => Some(&PROJECTS),
        ("sandbox", _) if is_first => Some(&SANDBOXES),
        ("review", _) if is_first => Some(&REVIEWS),
        ("agent", _) if is_first => Some(&AGENTS),
        ("key", _) if is_first => Some(&KEYS),
        ("template", _) if is_first => Some(&TEMPLATES),
        ("webhook", _) if is_first => Some(&WEBHOOKS),
        ("context", _) | (_, "logout") if is_first => Some(&CONTEXTS),
        ("ws", _) if is_first => Some(&WORKSPACES),
        _ => None,
    }
}

impl Source {
    fn candidates(&self) -> Vec<CompletionCandidate> {
        let lines = self.list().unwrap_or_default();
        let lines = lines.lines();
        let objects = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let names = objects.filter_map(|object| {
            let mut fields = self.fields.iter().map(|field| &object[*field]);
            fields.find_map(Value::as_str).map(CompletionCandidate::new)
        });
        names.collect()
    }

    /// Runs the command and returns its output. Returns `None` if that fails or
    /// takes too long.
    fn list(&self) -> Option<String> {
        let mut process = Process::new(std::env::current_exe().ok()?);
        process.args(self.words).stdin(Stdio::null());
        process.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = process.spawn().ok()?;
        let stdout = child.stdout.take()?;
        let (done, waiting) = mpsc::channel();
        thread::spawn(move || {
            let mut text = String::new();
            let read = stdout.take(LARGEST).read_to_string(&mut text);
            // The receiver has gone if the time is over.
            let _ = done.send(read.is_ok().then_some(text));
        });
        let text = waiting.recv_timeout(PATIENCE).ok().flatten();
        let _ = child.kill();
        let _ = child.wait();
        text
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Cli;

    #[test]
    fn the_commands_that_list_values_exist() {
        for source in [
            &PROJECTS,
            &SANDBOXES,
            &REVIEWS,
            &AGENTS,
            &KEYS,
            &TEMPLATES,
            &WEBHOOKS,
            &CONTEXTS,
            &WORKSPACES,
            &TAGS,
        ] {
            let words = std::iter::once("elevo").chain(source.words.iter().copied());
            assert!(Cli::try_parse_from(words).is_ok(), "{:?}", source.words);
        }
    }

    #[test]
    fn arguments_are_completed_with_the_values_they_take() {
        let mut tree = with_values(Cli::command());
        tree.build();
        let has_values = |words: &[&str], id: &str| {
            let mut command = &tree;
            for word in words {
                command = command.find_subcommand(word).unwrap();
            }
            let arg = command.get_arguments().find(|arg| arg.get_id() == id);
            arg.unwrap().get::<ArgValueCandidates>().is_some()
        };
        assert!(has_values(&["ws", "create"], "provider"));
        assert!(has_values(&["ws", "create"], "project"));
        assert!(has_values(&["exec"], "sandbox"));
        assert!(!has_values(&["project", "create"], "name"));
    }
}
