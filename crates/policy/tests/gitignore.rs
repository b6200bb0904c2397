//! Compares our reading of `.gitignore` files with git's: for random files over
//! random trees, both must ignore the same paths.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test finds git where the one who runs it does"
)]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use elevo_core::TreePath;
use elevo_policy::{IgnoreError, Ignores, MAX_IGNORE_BYTES, MAX_IGNORE_PATTERNS};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const ROUNDS: u64 = 250;

/// A working tree of git, emptied for each round.
struct Git(tempfile::TempDir);

impl Git {
    fn new() -> Self {
        let git = Self(tempfile::tempdir().unwrap());
        let output = git.command(&["init", "--quiet", "--template="]).output();
        assert!(output.unwrap().status.success());
        git
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.0.path().join(".git"))
            .env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    fn clear(&self) {
        for entry in fs::read_dir(self.0.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(entry.path()).unwrap();
            } else {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }

    fn on_disk(&self, path: &[u8]) -> std::path::PathBuf {
        self.0.path().join(Path::new(OsStr::from_bytes(path)))
    }

    fn ignored(&self, paths: &BTreeSet<Vec<u8>>) -> BTreeSet<Vec<u8>> {
        let mut command = self.command(&["check-ignore", "--no-index", "-z", "--stdin"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        for path in paths {
            input.write_all(path).unwrap();
            input.write_all(b"\0").unwrap();
        }
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)));
        let ignored = output.stdout.split(|byte| *byte == 0);
        let ignored = ignored.filter(|path| !path.is_empty());
        ignored.map(<[u8]>::to_vec).collect()
    }
}

fn pick<'a>(random: &mut SmallRng, from: &[&'a [u8]]) -> &'a [u8] {
    from[random.random_range(0..from.len())]
}

fn name(random: &mut SmallRng) -> Vec<u8> {
    let usual: [&[u8]; 14] = [
        b"a", b"b", b"ab", b"abc", b"a.b", b"b.a", b"src", b"x", b"ba", b"aXb", b"target", b"a1",
        b"bb", b"aa",
    ];
    let odd: [&[u8]; 14] = [
        b"a b",
        b"a ",
        b"#a",
        b"!a",
        b"[a]",
        b"{a,b}",
        b"a\\b",
        b"a*",
        b"\xffa",
        b"\xc3\xa9",
        b"a-b",
        b"a\r",
        b"]",
        b"..a",
    ];
    if random.random_bool(0.8) {
        pick(random, &usual).to_vec()
    } else {
        pick(random, &odd).to_vec()
    }
}

fn path(random: &mut SmallRng) -> Vec<u8> {
    let depth = random.random_range(1..5);
    let names: Vec<_> = (0..depth).map(|_| name(random)).collect();
    names.join(&b'/')
}

/// Returns a wildcard that may match the byte.
fn wild(random: &mut SmallRng, byte: u8) -> Vec<u8> {
    let fixed: [&[u8]; 18] = [
        b"?",
        b"*",
        b"**",
        b"***",
        b"[a-c]",
        b"[!a]",
        b"[^b]",
        b"[a\\]]",
        b"[]a]",
        b"[[:alpha:]]",
        b"[![:digit:]]",
        b"[a-]",
        b"[-a]",
        b"[\\a-b]",
        b"[[:x]",
        b"[/a]",
        b"[a",
        b"[[:none:]]",
    ];
    match random.random_range(0..4) {
        0 => vec![b'\\', byte],
        1 => vec![b'[', byte, b']'],
        _ => pick(random, &fixed).to_vec(),
    }
}

/// Returns a pattern derived from a path, so that it has something to match.
fn shaped(random: &mut SmallRng, path: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::new();
    let names: Vec<_> = path.split(|byte| *byte == b'/').collect();
    let names = match random.random_range(0..3) {
        0 => &names[names.len() - 1..],
        1 => &names[random.random_range(0..names.len())..],
        _ => &names[..],
    };
    pattern.extend(pick(
        random,
        &[b"", b"", b"", b"", b"", b"/", b"**/", b"*/", b"//"],
    ));
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            let between: [&[u8]; 12] = [
                b"/", b"/", b"/", b"/", b"/", b"/", b"/", b"/**/", b"/*/", b"/**/**/", b"\\/",
                b"//",
            ];
            pattern.extend(pick(random, &between));
        }
        for byte in *name {
            if random.random_bool(0.12) {
                pattern.extend(wild(random, *byte));
            } else {
                pattern.push(*byte);
            }
        }
    }
    let last: [&[u8]; 12] = [
        b"", b"", b"", b"", b"", b"", b"/", b"/**", b"/*", b"*", b"  ", b"\\ ",
    ];
    pattern.extend(pick(random, &last));
    pattern
}

fn line(random: &mut SmallRng, paths: &BTreeSet<Vec<u8>>) -> Vec<u8> {
    let mut line = Vec::new();
    if random.random_bool(0.25) {
        line.push(b'!');
    }
    if random.random_bool(0.15) {
        let bytes = b"aab//**?[]!-\\ #{},.^:\xff\0";
        let noise =
            (0..random.random_range(1..10)).map(|_| bytes[random.random_range(0..bytes.len())]);
        line.extend(noise);
    } else {
        let path = paths.iter().nth(random.random_range(0..paths.len()));
        line.extend(shaped(random, path.unwrap()));
    }
    if follows_the_code_and_not_the_manual(&line) {
        line.clear();
    }
    line
}

/// Returns whether git treats a line differently from its manual. git compares
/// the part before the first wildcard separately, so it treats a `**` right
/// after that part as if it began the pattern: `a**/b` matches `ab` and
/// `a/x/b`, though the manual says that this `**` is a plain `*`. We follow the
/// manual.
fn follows_the_code_and_not_the_manual(line: &[u8]) -> bool {
    let is_wild = |byte: &u8| b"*?[\\".contains(byte);
    let Some(first) = line.iter().position(is_wild) else {
        return false;
    };
    line[first..].starts_with(b"**") && first > 0 && !b"/!".contains(&line[first - 1])
}

fn file(random: &mut SmallRng, paths: &BTreeSet<Vec<u8>>) -> Vec<u8> {
    let mut content = Vec::new();
    if random.random_bool(0.1) {
        content.extend(b"\xef\xbb\xbf");
    }
    for _ in 0..random.random_range(2..12) {
        content.extend(line(random, paths));
        content.extend(pick(
            random,
            &[b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\n# no\n"],
        ));
    }
    if random.random_bool(0.1) {
        content.pop();
    }
    content
}

/// Creates a random tree; returns its paths.
fn grow(random: &mut SmallRng, git: &Git) -> BTreeSet<Vec<u8>> {
    let mut paths = BTreeSet::new();
    for _ in 0..random.random_range(8..20) {
        let path = path(random);
        let made = if random.random_bool(0.3) {
            fs::create_dir_all(git.on_disk(&path))
        } else {
            let parent = git.on_disk(&path);
            fs::create_dir_all(parent.parent().unwrap())
                .and_then(|()| fs::write(git.on_disk(&path), ""))
        };
        // A path that conflicts with another is skipped.
        if made.is_ok() {
            let ends = (0..path.len()).filter(|at| path[*at] == b'/');
            paths.extend(ends.map(|end| path[..end].to_vec()));
            paths.insert(path);
        }
    }
    paths
}

#[test]
fn random_ignore_files_match_as_in_git() {
    let git = Git::new();
    let (mut asked, mut ignored_in_all) = (0, 0);
    let mut different = Vec::new();
    for seed in 0..ROUNDS {
        let random = &mut SmallRng::seed_from_u64(seed);
        git.clear();
        let paths = grow(random, &git);
        let mut ignores = Ignores::new();
        let mut files = Vec::new();
        let directories = paths.iter().filter(|path| git.on_disk(path).is_dir());
        let directories: Vec<_> = directories
            .filter(|_| random.random_bool(0.1))
            .cloned()
            .collect();
        for directory in std::iter::once(Vec::new()).chain(directories) {
            let content = file(random, &paths);
            fs::write(git.on_disk(&directory).join(".gitignore"), &content).unwrap();
            let directory = TreePath::new(&directory).unwrap();
            ignores.add(&directory, &content).unwrap();
            files.push((directory, content.escape_ascii().to_string()));
        }
        let theirs = git.ignored(&paths);
        for path in &paths {
            let is_directory = git.on_disk(path).is_dir();
            let path_in_tree = TreePath::new(path).unwrap();
            let ours = ignores.ignores(&path_in_tree, is_directory);
            let (directory, name) = path_in_tree.split_last().unwrap();
            let within = ignores.within(&directory);
            assert_eq!(within.ignores(&name, is_directory), ours, "{path_in_tree}");
            asked += 1;
            ignored_in_all += usize::from(ours);
            if ours != theirs.contains(path) {
                different.push(format!(
                    "{seed} {:?} ours {ours} in {files:?}",
                    path.escape_ascii().to_string()
                ));
            }
        }
    }
    assert!(
        different.is_empty(),
        "{}:\n{}",
        different.len(),
        different.join("\n")
    );
    assert!(
        asked > 5000 && ignored_in_all * 5 > asked && ignored_in_all * 5 < asked * 4,
        "{ignored_in_all} of {asked}"
    );
}

/// Compares our reading of each line with git's, with the line as the whole
/// `.gitignore`.
fn compare_lines(git: &Git, lines: &[&[u8]], paths: &BTreeSet<Vec<u8>>) {
    for line in lines {
        fs::write(git.on_disk(b".gitignore"), line).unwrap();
        let mut ignores = Ignores::new();
        ignores.add(&TreePath::root(), line).unwrap();
        let ours = paths
            .iter()
            .filter(|path| ignores.ignores(&TreePath::new(path).unwrap(), false));
        let ours: BTreeSet<_> = ours.cloned().collect();
        assert_eq!(ours, git.ignored(paths), "{}", line.escape_ascii());
    }
}

#[test]
fn classes_match_the_same_bytes_as_in_git() {
    let git = Git::new();
    let bytes = (1..=255_u8).filter(|byte| *byte != b'/');
    let paths: BTreeSet<_> = bytes.map(|byte| vec![b'x', byte, b'y']).collect();
    for path in &paths {
        fs::write(git.on_disk(path), "").unwrap();
    }
    let lines: [&[u8]; 27] = [
        b"x[[:alnum:]]y",
        b"x[[:alpha:]]y",
        b"x[[:blank:]]y",
        b"x[[:cntrl:]]y",
        b"x[[:digit:]]y",
        b"x[[:graph:]]y",
        b"x[[:lower:]]y",
        b"x[[:print:]]y",
        b"x[[:punct:]]y",
        b"x[[:space:]]y",
        b"x[[:upper:]]y",
        b"x[[:xdigit:]]y",
        b"x[![:print:]a-f]y",
        b"x[a-c-e]y",
        b"x[--0]y",
        b"x[z-a]y",
        b"x[]-a]y",
        b"x[!]]y",
        b"x[\\]-a]y",
        b"x[a-\\]]y",
        b"x[[-a]y",
        b"x[[:alpha]y",
        b"x[[:]-a]y",
        b"x[[:digit:]-z]y",
        b"x[\x80-\xff]y",
        b"x?y",
        b"x[!^]y",
    ];
    compare_lines(&git, &lines, &paths);
}

#[test]
fn spaces_and_escapes_are_read_as_by_git() {
    let git = Git::new();
    let names: [&[u8]; 9] = [
        b"a", b"a ", b"a  ", b" a", b"\\a", b"#a", b"!a", b"a\\", b"a\t",
    ];
    let paths: BTreeSet<_> = names.map(<[u8]>::to_vec).into();
    for path in &paths {
        fs::write(git.on_disk(path), "").unwrap();
    }
    let lines: [&[u8]; 16] = [
        b"a ", b"a\\ ", b"a \\ ", b"a\\  ", b"a\\ \\ ", b" a", b"\\ a", b"\\\\a", b"\\#a", b"#a",
        b"\\!a", b"a\\\\", b"a\\\\ ", b"a\\", b"a\t", b"a\t ",
    ];
    compare_lines(&git, &lines, &paths);
}

#[test]
fn two_stars_after_other_characters_match_like_one() {
    let mut ignores = Ignores::new();
    ignores.add(&TreePath::root(), b"/a**/b").unwrap();
    let ignored = ["a/b", "ax/b", "ab", "ax/y/b"].map(|path| {
        let path = TreePath::new(path).unwrap();
        ignores.ignores(&path, false)
    });
    assert_eq!(ignored, [true, true, false, false]);
}

#[test]
fn a_file_that_is_added_again_replaces_the_earlier_one() {
    let root = TreePath::root();
    let (a, b) = (TreePath::new("a").unwrap(), TreePath::new("b").unwrap());
    let mut ignores = Ignores::new();
    ignores.add(&root, b"a").unwrap();
    ignores.add(&root, b"b").unwrap();
    assert_eq!(
        [&a, &b].map(|path| ignores.ignores(path, false)),
        [false, true]
    );
}

#[test]
fn files_that_are_too_large_are_rejected_and_change_nothing() {
    let mut ignores = Ignores::new();
    let path = TreePath::new("x/a").unwrap();
    ignores.add(&TreePath::root(), b"a").unwrap();
    let too_large = vec![b'\n'; MAX_IGNORE_BYTES + 1];
    let refused = ignores.add(&TreePath::root(), &too_large);
    assert_eq!(refused, Err(IgnoreError::TooLarge(MAX_IGNORE_BYTES + 1)));
    let too_many = b"b\n".repeat(MAX_IGNORE_PATTERNS);
    let directory = TreePath::new("x").unwrap();
    assert_eq!(
        ignores.add(&directory, &too_many),
        Err(IgnoreError::TooMany)
    );
    assert!(ignores.ignores(&path, false));
}

#[test]
fn patterns_with_many_stars_do_not_backtrack_without_end() {
    let mut ignores = Ignores::new();
    let content = "**/a/".repeat(50) + "b\n" + &"*a".repeat(5000) + "b\n";
    ignores.add(&TreePath::root(), content.as_bytes()).unwrap();
    for path in ["a/".repeat(100) + "a", "a".repeat(255)] {
        assert!(!ignores.ignores(&TreePath::new(path).unwrap(), false));
    }
}
