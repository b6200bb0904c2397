//! Runs the commands in the documentation.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{ELEVO, clean, ended};

/// Returns the commands of a page: the text after `$ ` on each line that starts
/// with it, in blocks marked `console`.
fn commands(page: &str) -> Vec<String> {
    let mut in_block = false;
    let mut commands = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            commands.push(command.to_owned());
        }
    }
    commands
}

/// Runs the commands of a page in order in one shell, in `directory`.
fn run(page: &str, directory: &Path, least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join(page)).expect("the page is there");
    let commands = commands(&text);
    assert!(commands.len() >= least, "{page}: {commands:?}");
    let bin = Path::new(ELEVO.as_str()).parent().expect("a directory");
    let path = std::env::var("PATH").expect("a PATH");
    // Uses a separate mount namespace, so that the mounts of the commands end
    // with them.
    let mut bash = match rustix::process::geteuid().is_root() {
        true => {
            let mut unshare = Command::new("unshare");
            unshare.args(["--mount", "--propagation", "private", "bash"]);
            unshare
        }
        false => Command::new("bash"),
    };
    clean(&mut bash);
    bash.args(["-eu", "-c"])
        .arg(commands.join("\n"))
        .current_dir(directory)
        .env("PATH", format!("{}:{path}", bin.display()));
    let ended = ended(&mut bash);
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.code, 0, "{page}:\n{printed}\n{}", ended.stderr);
}

#[test]
fn the_commands_in_the_manual_run() {
    let directory = tempfile::tempdir().unwrap();
    run("docs/cli.md", directory.path(), 20);
}

#[test]
fn the_start_in_the_readme_runs() {
    let directory = tempfile::tempdir().unwrap();
    let work = directory.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("file"), "text\n").unwrap();
    run("README.md", &work, 4);
}
