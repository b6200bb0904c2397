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
            &["ls", "v1"],
            &["ls", "-r", "v1"],
            &["cat", "v2:edited"],
            &["diff", "v1", "v2"],
            &["diff", "--stat", "v1", "v2"],
            &["diff", "-p", "v1", "v2"],
            &["diff", "--exit-code", "v1", "v2"],
        ],
    ));
}

#[test]
fn errors_are_printed_as_before() {
    let place = Place::with_history();
    insta::assert_snapshot!(transcripts(
        &place,
        &[
            &["show", "nope"],
            &["show", "v1~9"],
            &["cat", "v1:absent"],
            &["cat", "v1:/etc"],
            &["tag", "head"],
            &["tag", "-d", "absent"],
            &["checkout", "v1", "edited"],
            &["show", "nope", "--json"],
            &["ws", "path", "absent"],
            &["ws", "ls"],
            &["audit", "verify", "--data", "absent"],
            &["sandbox", "ls", "--data", "absent"],
            &["cp", "a", "b", "--server", "http://127.0.0.1:1"],
            &["store", "nonsense"],
            &["log", "--nonsense", "--json"],
        ],
    ));
}
