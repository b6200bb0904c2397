//! Pins the output of commands whose text depends on nothing but their input.
//! `INSTA_UPDATE=always` accepts a change.

use crate::common::{Place, elevo, ended};

/// Runs a command in `place`. Returns its output, its errors and its exit code.
fn transcript(place: &Place, words: &[&str]) -> String {
    let mut command = elevo();
    command.current_dir(place.path("")).args(words);
    let ended = ended(&mut command);
    let stdout = String::from_utf8_lossy(&ended.stdout);
    let text = format!("$ elevo {}\n{stdout}{}", words.join(" "), ended.stderr);
    let root = place.root().canonicalize().expect("the directory is there");
    let text = text.replace(&*root.to_string_lossy(), "ROOT");
    format!("{text}[{}]\n", ended.code)
}

fn transcripts(place: &Place, commands: &[&[&str]]) -> String {
    let all: Vec<_> = commands.iter().map(|it| transcript(place, it)).collect();
    all.join("\n")
}

#[test]
fn trees_and_differences_are_printed_as_before() {
    let place = Place::with_history();
    insta::assert_snapshot!(transcripts(
        &place,
        &[
            &["state", "ls", "v1"],
            &["state", "ls", "-r", "v1"],
            &["state", "cat", "v2", "edited"],
            &["state", "diff", "v1", "v2"],
            &["state", "diff", "--stat", "v1", "v2"],
            &["state", "diff", "-p", "v1", "v2"],
            &["state", "diff", "--exit-code", "v1", "v2"],
        ],
    ));
}

#[test]
fn errors_are_printed_as_before() {
    let place = Place::with_history();
    insta::assert_snapshot!(transcripts(
        &place,
        &[
            &["state", "show", "nope"],
            &["state", "show", "v1~9"],
            &["state", "cat", "v1", "absent"],
            &["state", "cat", "v1", "/etc"],
            &["state", "tag", "head"],
            &["state", "tag", "-d", "absent"],
            &["state", "checkout", "v1", "edited"],
            &["state", "show", "nope", "--json"],
            &["ws", "path", "absent"],
            &["ws", "ls"],
            &["audit", "verify", "--data", "absent"],
            &["sandbox", "ls", "--data", "absent"],
            &["cp", "a", "b", "--server", "http://127.0.0.1:1"],
            &["state", "nonsense"],
            &["state", "log", "--nonsense", "--json"],
        ],
    ));
}
