use bytes::Bytes;
use elevo_objects::Mode;
use futures::executor::block_on;
use proptest::prelude::*;

use super::*;
use crate::memory::MemoryStore;
use crate::renames::renames;
use crate::state::{Attributes, StateTree};

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

fn empty() -> StateTree {
    let store = std::sync::Arc::new(MemoryStore::default());
    let tenant = elevo_core::TenantId::LOCAL;
    StateTree::empty(&Repository::new(store, tenant, 1 << 20))
}

async fn write(tree: &StateTree, at: &str, data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    tree.write(&path(at), data, Attributes::default())
        .await
        .unwrap();
}

async fn patch_of(before: &StateTree, after: &StateTree) -> String {
    let mut diff = before.diff(after).await.unwrap();
    let repository = diff.repository().clone();
    let (mut out, mut budget) = (Vec::new(), LineBudget::of_one_answer());
    while let Some(change) = diff.next().await.unwrap() {
        let options = PatchOptions::default();
        let patch = patch(&repository, &change, &options, &mut budget);
        out.extend(patch.await.unwrap());
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hunks(before: &str, after: &str) -> String {
    let mut out = Vec::new();
    let mut work = Work::of_one_diff();
    let (before, after) = (before.as_bytes(), after.as_bytes());
    put_hunks(&mut out, before, after, 3, &mut work);
    String::from_utf8(out).unwrap()
}

fn numbers(range: Range<u32>) -> String {
    range.map(|n| format!("{n}\n")).collect()
}

#[test]
fn every_kind_of_change_has_a_patch() {
    block_on(async {
        let before = empty();
        write(&before, "edited", b"one\ntwo").await;
        write(&before, "gone", b"bye\n").await;
        write(&before, "image", b"\0").await;
        write(&before, "mode", b"").await;
        write(&before, "was-file", b"text\n").await;
        let after = before.clone();
        write(&after, "a new one", b"hello\n").await;
        write(&after, "edited", b"one\ntwo\nthree\n").await;
        after.remove(&path("gone")).await.unwrap();
        write(&after, "image", b"\0\0").await;
        let mode = Mode::EXECUTABLE;
        after.set_mode(&path("mode"), mode).await.unwrap();
        let target = Bytes::from_static(b"edited");
        after.symlink(&path("was-file"), target).await.unwrap();

        let expected = "\
diff --git a/a new one b/a new one
new file mode 100644
--- /dev/null
+++ b/a new one\t
@@ -0,0 +1 @@
+hello
diff --git a/edited b/edited
--- a/edited
+++ b/edited
@@ -1,2 +1,3 @@
 one
-two
\\ No newline at end of file
+two
+three
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/image b/image
Binary files a/image and b/image differ
diff --git a/mode b/mode
old mode 100644
new mode 100755
diff --git a/was-file b/was-file
deleted file mode 100644
--- a/was-file
+++ /dev/null
@@ -1 +0,0 @@
-text
diff --git a/was-file b/was-file
new file mode 120000
--- /dev/null
+++ b/was-file
@@ -0,0 +1 @@
+edited
\\ No newline at end of file
";
        assert_eq!(patch_of(&before, &after).await, expected);
    });
}

#[test]
fn a_hunk_near_the_start_begins_where_its_context_does() {
    let after = numbers(0..20).replace("\n5\n", "\nfive\n");
    let expected = "@@ -3,7 +3,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
    assert_eq!(hunks(&numbers(0..20), &after), expected);
}

#[test]
fn changes_with_touching_contexts_share_a_hunk_and_others_do_not() {
    let before = numbers(0..30);
    let near = before.replace("\n10\n", "\nx\n").replace("\n17\n", "\ny\n");
    assert_eq!(hunks(&before, &near).matches("@@ -").count(), 1);
    let far = before.replace("\n10\n", "\nx\n").replace("\n18\n", "\ny\n");
    let headers: Vec<_> = hunks(&before, &far)
        .lines()
        .filter(|line| line.starts_with("@@"))
        .map(str::to_owned)
        .collect();
    assert_eq!(headers, ["@@ -8,7 +8,7 @@", "@@ -16,7 +16,7 @@"]);
}

/// Applies hunks as `git apply` does without fuzz: every kept or removed
/// line must be exactly where the hunk has it.
fn applied(before: &str, hunks: &str) -> String {
    let mut rest = before.split_inclusive('\n');
    let (mut out, mut at) = (String::new(), 0);
    let mut hunk_lines = hunks.split_inclusive('\n').peekable();
    while let Some(line) = hunk_lines.next() {
        let (marker, text) = line.split_at(1);
        let ends = hunk_lines.next_if(|next| next.starts_with('\\'));
        let text = match ends {
            Some(_) => text.strip_suffix('\n').unwrap(),
            None => text,
        };
        match marker {
            "@" => {
                let old = text.split([' ', ',']).nth(1).unwrap();
                let start: usize = old.trim_start_matches('-').parse().unwrap();
                let empty = text.split(' ').nth(1).unwrap().ends_with(",0");
                let start = if empty { start } else { start - 1 };
                out.extend(rest.by_ref().take(start - at));
                at = start;
            }
            "+" => out.push_str(text),
            _ => {
                assert_eq!(rest.next(), Some(text));
                at += 1;
                if marker == " " {
                    out.push_str(text);
                }
            }
        }
    }
    out.extend(rest);
    out
}

fn some_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![Just("\n"), Just("a\n"), Just("b\n"), Just("c\n")];
    let lines = proptest::collection::vec(line, 0..60);
    (lines, prop_oneof![Just(""), Just("end")]).prop_map(|(lines, end)| lines.concat() + end)
}

proptest! {
    #[test]
    fn a_patch_applies_with_any_amount_of_work_left(
        before in some_text(),
        after in some_text(),
        context in 0..4usize,
        lines in prop_oneof![0..500u64, Just(Work::ONE_DIFF)],
    ) {
        let mut out = Vec::new();
        let work = &mut Work::new(lines);
        put_hunks(&mut out, before.as_bytes(), after.as_bytes(), context, work);
        let hunks = String::from_utf8(out).unwrap();
        prop_assert_eq!(applied(&before, &hunks), after);
    }
}

#[test]
fn git_applies_a_patch_of_a_coarse_diff() {
    let directory = tempfile::tempdir().unwrap();
    let before: String = (0..3_000).map(|n| format!("{}\n", n % 700)).collect();
    let line = |n: u32| match n % 2 {
        0 => format!("{}\n", n % 700),
        _ => format!("{n} is new\n"),
    };
    let after: String = (0..3_000).map(line).collect::<String>() + "end";
    let mut out = b"diff --git a/file b/file\n--- a/file\n+++ b/file\n".to_vec();
    let mut work = Work::new(10_000);
    put_hunks(&mut out, before.as_bytes(), after.as_bytes(), 3, &mut work);
    assert!(work.done() > 10_000, "the diff is not a coarse one");
    let file = directory.path().join("file");
    std::fs::write(&file, before).unwrap();
    std::fs::write(directory.path().join("patch"), out).unwrap();

    let git = std::process::Command::new("git")
        .args(["apply", "patch"])
        .current_dir(directory.path())
        .env("GIT_CEILING_DIRECTORIES", "/")
        .output()
        .unwrap();

    assert!(git.status.success(), "{git:?}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), after);
}

#[test]
fn a_response_compares_a_bounded_amount_of_text() {
    let mut budget = LineBudget::of_one_answer();
    let text = vec![b'\n'; 16 << 20];
    let compared = std::iter::repeat_with(|| budget.compare(&text, &text, |_| ()));
    let compared = compared.take(100).take_while(Result::is_ok).count();
    assert_eq!(compared, 4);
}

#[test]
fn odd_paths_are_quoted_as_git_does() {
    let quote = |path: &[u8]| String::from_utf8(quoted(path).into_owned()).unwrap();
    assert_eq!(quote("plain ü name".as_bytes()), "plain ü name");
    assert_eq!(quote(b"a\nb\t\"c\\"), r#""a\nb\t\"c\\""#);
    assert_eq!(quote(b"\xff\x1b[31m"), r#""\377\033[31m""#);
    assert_eq!(quote("\u{9b}".as_bytes()), r#""\302\233""#);
}

#[test]
fn a_rename_has_a_patch_without_content() {
    block_on(async {
        let before = empty();
        write(&before, "old name", b"text\n").await;
        let after = before.clone();
        let (old, new) = (path("old name"), path("new"));
        after.rename(&old, &new).await.unwrap();
        let diff = before.diff(&after).await.unwrap();
        let found = renames(diff.collect().await.unwrap());
        let expected = "\
diff --git a/old name b/new
similarity index 100%
rename from old name
rename to new
";
        assert_eq!(rename_patch(&found.renames[0]), expected.as_bytes());
    });
}
