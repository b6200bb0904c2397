//! A temporary directory to run `elevo` in.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use elevo_testkit::binary::under_test;
use serde_json::Value;
use tempfile::TempDir;

/// The binary under test; `ELEVO_BINARY` overrides it.
pub(crate) static ELEVO: LazyLock<String> =
    LazyLock::new(|| under_test("ELEVO_BINARY", env!("CARGO_BIN_EXE_elevo")));

/// A temporary directory with the working directory `work`.
pub(crate) struct Place {
    root: TempDir,
}

/// The exit code and output of a command.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Place {
    /// Creates a place without a store.
    pub(crate) fn bare() -> Self {
        let root = tempfile::tempdir().expect("a directory for the test");
        fs::create_dir(root.path().join("work")).expect("a working directory");
        Self { root }
    }

    /// Creates a place with a store.
    pub(crate) fn new() -> Self {
        let place = Self::bare();
        place.ok(["init"]);
        place
    }

    /// Creates a place with a store and two commits, tagged v1 and v2.
    pub(crate) fn with_history() -> Self {
        let place = Self::new();
        place.write("kept", "the same\n");
        place.write("edited", "one\ntwo\nthree\n");
        place.write("old/gone", "bye\n");
        place.ok(["commit", "-m", "first"]);
        place.ok(["tag", "v1"]);
        place.write("edited", "one\n2\nthree\nfour\n");
        place.write("new", "hello\n");
        fs::remove_dir_all(place.path("old")).expect("old is there");
        place.ok(["commit", "-m", "second\n\nwith more to say"]);
        place.ok(["tag", "v2"]);
        place
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// A path in the working directory.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.path().join("work").join(path)
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        let parent = path.parent().expect("below the working directory");
        fs::create_dir_all(parent).expect("directories can be made");
        fs::write(path, text).expect("files can be written");
    }

    pub(crate) fn read(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.path(path)).expect("the file is there")
    }

    /// `elevo` in the working directory.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = elevo();
        command.current_dir(self.path("")).args(args);
        command
    }

    /// `elevo ws` in the working directory.
    pub(crate) fn ws<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ended {
        let mut command = elevo();
        command.current_dir(self.path("")).arg("ws").args(args);
        ended(&mut command)
    }

    fn json_command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut args = args.into_iter();
        let mut command = self.command(args.next());
        // The other arguments may end with `--` and paths.
        command.arg("--json").args(args);
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ended {
        ended(&mut self.command(args))
    }

    /// Runs a command that must succeed. Returns its output.
    pub(crate) fn ok<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        self.run(args).text()
    }

    /// Runs a command that must succeed. Returns its output as JSON lines.
    pub(crate) fn json<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Vec<Value> {
        ended(&mut self.json_command(args)).values()
    }

    /// Runs a command that must succeed and print one JSON value.
    pub(crate) fn json_one<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        let mut values = self.json(args);
        assert_eq!(values.len(), 1, "{values:?}");
        values.remove(0)
    }

    /// Runs a command that must fail with `code`. Returns the name of its error.
    pub(crate) fn fails<S: AsRef<OsStr>>(
        &self,
        code: i32,
        args: impl IntoIterator<Item = S>,
    ) -> String {
        let ended = ended(&mut self.json_command(args));
        assert_eq!(ended.code, code, "{}", ended.stderr);
        let error: Value = serde_json::from_str(&ended.stderr).expect(&ended.stderr);
        let name = error["error"]["name"].as_str();
        name.expect("an error has a name").to_owned()
    }

    /// The description of a snapshot.
    pub(crate) fn shown(&self, revision: &str) -> Value {
        // Its changes follow.
        self.json(["show", revision]).remove(0)
    }

    /// The id of a snapshot.
    pub(crate) fn id(&self, revision: &str) -> String {
        self.shown(revision)["snapshot"]
            .as_str()
            .expect("an id")
            .to_owned()
    }
}

impl Ended {
    pub(crate) fn text(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        String::from_utf8(self.stdout).expect("text")
    }

    pub(crate) fn values(self) -> Vec<Value> {
        let text = self.text();
        let value = |line| serde_json::from_str(line).expect("a JSON value on each line");
        text.lines().map(value).collect()
    }
}

/// `elevo`, without environment variables that affect it.
pub(crate) fn elevo() -> Command {
    let mut command = Command::new(ELEVO.as_str());
    clean(&mut command);
    command
}

pub(crate) fn clean(command: &mut Command) {
    for name in [
        "ELEVO_STORE",
        "ELEVO_WORKSPACES",
        "ELEVO_AUTHOR",
        "ELEVO_CA",
        "ELEVO_CONTEXT",
        "ELEVO_DATA",
        "ELEVO_SERVER",
        "ELEVO_API_KEY",
        "DOCKER_HOST",
        "NO_COLOR",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(name);
    }
    command.env("USER", "somebody").env("TZ", "UTC");
    // Without contexts of the user who runs the tests.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
}

pub(crate) fn ended(command: &mut Command) -> Ended {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the command starts");
    Ended {
        code: status.code().expect("it was not killed"),
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// The names of the fields of an object.
pub(crate) fn fields(value: &Value) -> Vec<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}
