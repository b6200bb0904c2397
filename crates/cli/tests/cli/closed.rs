//! Commands whose reader closes the output early.

use std::process::Stdio;

use crate::common::{Place, elevo};

#[test]
fn a_reader_that_leaves_is_not_an_error() {
    let place = Place::bare();
    let commands: [&[&str]; 2] = [&["completions", "bash"], &["doctor", "--json"]];
    for words in commands {
        let mut command = elevo();
        command.current_dir(place.path("")).args(words);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        command.stdout(writer).stderr(Stdio::piped());
        drop(reader);
        let ended = command.output().expect("the command starts");
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{words:?}: {errors}");
        assert_eq!(errors, "", "{words:?}");
    }
}
