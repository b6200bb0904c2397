//! Archives keep trees intact, here and in other programs.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use elevo_archive::{Export, ExportContent};
use elevo_core::Timestamp;
use elevo_engine::Progress;
use proptest::prelude::*;
use support::{Model, NOW, Node, Raw, export, files, path, read, read_layer, repository, snapshot};

fn time() -> impl Strategy<Value = Timestamp> {
    let seconds = prop_oneof![0i64..1 << 33, -(1i64 << 33)..0, Just(i64::MAX / 2)];
    let nanos = prop_oneof![Just(0), 0u32..1_000_000_000];
    (seconds, nanos).prop_map(|(seconds, nanos)| Timestamp::new(seconds, nanos).unwrap())
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]".prop_map(String::from),
        "[a-c\\-. ]{1,3}".prop_filter("dots", |name| name != "." && name != ".."),
        "[äβ\n=]{1,4}".prop_map(String::from),
        Just("x".repeat(120)),
        Just("y".repeat(251)),
    ]
    .prop_filter("is a whiteout", |name| !name.starts_with(".wh."))
}

fn node() -> impl Strategy<Value = Node> {
    let small = proptest::collection::vec(any::<u8>(), 0..700);
    let large = (any::<u8>(), 100_000usize..1_500_000).prop_map(|(seed, length)| {
        let mix = |at: usize| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed;
        (0..length).map(mix).collect::<Vec<u8>>()
    });
    let target = proptest::collection::vec(1u8..=255, 1..300);
    prop_oneof![
        6 => (0u32..0o1000, time(), small).prop_map(|(mode, time, data)| Node::File(mode, time, data)),
        1 => (0u32..0o1000, time(), large).prop_map(|(mode, time, data)| Node::File(mode, time, data)),
        2 => (0u32..0o1000, time()).prop_map(|(mode, time)| Node::Directory(mode, time)),
        2 => (time(), target).prop_map(|(time, target)| Node::Link(time, target)),
    ]
}

/// A tree with an entry for every directory.
fn model() -> impl Strategy<Value = Model> {
    let place = proptest::collection::vec(name(), 1..4);
    proptest::collection::vec((place, node()), 0..12).prop_map(|nodes| {
        let mut model = Model::new();
        for (place, node) in nodes {
            let is_directory = |model: &Model, path: &str| {
                matches!(model.get(path), None | Some(Node::Directory(..)))
            };
            let paths: Vec<_> = (1..=place.len())
                .map(|depth| place[..depth].join("/"))
                .collect();
            let (last, above) = paths.split_last().unwrap();
            if !above.iter().all(|path| is_directory(&model, path)) || model.contains_key(last) {
                continue;
            }
            for path in above {
                let made = Node::Directory(0o755, NOW);
                model.entry(path.clone()).or_insert(made);
            }
            model.insert(last.clone(), node);
        }
        model
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_tree_survives_its_archive(model in model()) {
        let repository = repository();
        let before = snapshot(&repository, &model);
        let archive = export(&repository, &before, "", &ExportContent::Plain);
        prop_assert_eq!(&archive, &export(&repository, &before, "", &ExportContent::Plain));
        let elsewhere = support::repository();
        let received = read(&elsewhere, &archive).unwrap();
        prop_assert_eq!(received.tree, before.tree);
        prop_assert_eq!(received.times, before.times);
        prop_assert!(received.losses.is_empty());
    }

    #[test]
    fn a_layer_makes_one_tree_of_another(before in model(), after in model()) {
        let repository = repository();
        let (before, after) = (snapshot(&repository, &before), snapshot(&repository, &after));
        let layer = export(&repository, &after, "", &ExportContent::Layer(before.clone().into()));
        let received = read_layer(&repository, &layer, &before).unwrap();
        prop_assert_eq!(received.tree, after.tree);
        let nothing = snapshot(&repository, &Model::new());
        let first = export(&repository, &after, "", &ExportContent::Layer(nothing.clone().into()));
        let received = read_layer(&repository, &first, &nothing).unwrap();
        prop_assert_eq!(received.tree, after.tree);
        prop_assert_eq!(received.times, after.times);
    }
}

fn file(content: &str) -> Node {
    Node::File(0o644, NOW, content.into())
}

fn directory() -> Node {
    Node::Directory(0o755, NOW)
}

fn model_of(nodes: &[(&str, Node)]) -> Model {
    nodes
        .iter()
        .map(|(name, node)| (name.to_string(), node.clone()))
        .collect()
}

fn names(archive: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    for entry in tar::Archive::new(archive).entries().unwrap() {
        names.push(entry.unwrap().path().unwrap().display().to_string());
    }
    names
}

#[test]
fn names_are_relative_to_the_exported_path() {
    let repository = repository();
    let model = model_of(&[
        ("a", directory()),
        ("a/b", directory()),
        ("a/b/c", file("c")),
        ("ab", file("ab")),
    ]);
    let snapshot = snapshot(&repository, &model);
    let at = |path| names(&export(&repository, &snapshot, path, &ExportContent::Plain));
    assert_eq!(at("a"), ["b/", "b/c"]);
    assert_eq!(at("a/b/c"), ["c"]);
    assert_eq!(at("ab"), ["ab"]);
    let mut out = Vec::new();
    let export = Export {
        repository: &repository,
        snapshot: &snapshot,
        path: &path("missing"),
        form: &ExportContent::Plain,
        threads: 1,
    };
    assert!(
        export
            .write(|_, _| true, &mut out, &Progress::new())
            .is_err()
    );
    let all = Export {
        path: &path(""),
        ..export
    };
    let hidden = |path: &elevo_core::TreePath, _| path.as_bytes() != b"a/b";
    all.write(hidden, &mut out, &Progress::new()).unwrap();
    assert_eq!(names(&out), ["a/", "ab"]);
}

#[test]
fn a_layer_has_whiteouts_for_deletions() {
    let repository = repository();
    let before = snapshot(
        &repository,
        &model_of(&[
            ("all", directory()),
            ("all/one", file("1")),
            ("all/two", file("2")),
            ("became-file", directory()),
            ("became-file/x", file("x")),
            ("deep", directory()),
            ("deep/er", directory()),
            ("deep/er/kept", file("k")),
            ("deep/er/gone", file("g")),
            ("same", file("s")),
            ("tree", directory()),
            ("tree/leaf", file("l")),
        ]),
    );
    let after = snapshot(
        &repository,
        &model_of(&[
            ("all", directory()),
            ("all/new", file("n")),
            ("became-file", file("f")),
            ("deep", directory()),
            ("deep/er", directory()),
            ("deep/er/kept", file("k")),
            ("same", file("s")),
        ]),
    );
    let layer = export(
        &repository,
        &after,
        "",
        &ExportContent::Layer(before.into()),
    );
    assert_eq!(
        names(&layer),
        [
            "all/",
            "all/new",
            "all/.wh..wh..opq",
            "became-file",
            "deep/",
            "deep/er/",
            "deep/er/.wh.gone",
            ".wh.tree",
        ]
    );
    let strange = snapshot(&repository, &model_of(&[(".wh.x", file(""))]));
    let export = Export {
        repository: &repository,
        snapshot: &strange,
        path: &path(""),
        form: &ExportContent::Layer(after.into()),
        threads: 1,
    };
    let written = export.write(|_, _| true, Vec::new(), &Progress::new());
    assert!(written.is_err(), "it would be a whiteout of `x`");
}

/// A layer removes entries of its base only, in any order of the layer's entries.
#[test]
fn a_layer_is_understood_in_any_order() {
    let repository = repository();
    let base = snapshot(
        &repository,
        &model_of(&[
            ("dir", Node::Directory(0o700, NOW)),
            ("dir/old", file("old")),
            ("dir/sub", directory()),
            ("dir/sub/old", file("old")),
            ("file", file("old")),
            ("keep", Node::Directory(0o750, NOW)),
            ("keep/k", file("k")),
        ]),
    );
    let raw = Raw::default;
    let parts = [
        raw().file("dir/new", b"new"),
        raw().file("dir/.wh..wh..opq", b""),
        raw().file("file", b"new"),
        raw().file(".wh.file", b""),
        raw().file("keep/l", b"l"),
        raw().file(".wh.absent", b""),
        raw().file("keep/.wh..wh.plnk", b""),
        raw().entry("hard", b'1', b"", "keep/k"),
    ];
    for turn in 0..parts.len() {
        let mut layer = Vec::new();
        (0..parts.len()).for_each(|at| layer.extend(&parts[(at + turn) % parts.len()].0));
        let layer = Raw(layer).end();
        let received = read_layer(&repository, &layer, &base).unwrap();
        let expected = [
            ("dir/", ""),
            ("dir/new", "new"),
            ("file", "new"),
            ("hard", "k"),
            ("keep/", ""),
            ("keep/k", "k"),
            ("keep/l", "l"),
        ];
        let expected: BTreeMap<_, _> = expected
            .map(|(name, data)| (name.to_owned(), data.into()))
            .into();
        assert_eq!(files(&received), expected, "{turn}");
        let keep = path("keep");
        let stat = received.state.stat(&keep);
        let stat = futures::executor::block_on(stat).unwrap().unwrap();
        assert_eq!(stat.mode.bits(), 0o750, "it is only a parent");
    }
    for hostile in [".wh.", ".wh..", ".wh...", "dir/.wh..."] {
        let layer = Raw::default().file(hostile, b"").end();
        let read = read_layer(&repository, &layer, &base);
        assert!(read.is_err(), "{hostile}");
    }
    // Without a base, these names are ordinary.
    let plain = read(&repository, &Raw::default().file(".wh.x", b"").end()).unwrap();
    assert_eq!(files(&plain).into_keys().collect::<Vec<_>>(), [".wh.x"]);
}

fn tar(arguments: &[&str], at: &Path) -> Vec<u8> {
    let output = Command::new("tar")
        .env("LC_ALL", "C.UTF-8")
        .current_dir(at)
        .args(arguments)
        .output()
        .expect("GNU tar is needed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tar {arguments:?}: {said}");
    output.stdout
}

#[test]
fn gnu_tar_unpacks_our_archives() {
    let repository = repository();
    let long = "long/".repeat(60) + "file";
    let mut model = model_of(&[
        ("dir", Node::Directory(0o750, NOW)),
        ("dir/run", Node::File(0o755, NOW, b"run".to_vec())),
        ("dir/ünï\ncode", file("text")),
        ("link", Node::Link(NOW, "t".repeat(200).into())),
        ("large", Node::File(0o600, NOW, vec![7; 3_000_000])),
    ]);
    for (at, _) in long.match_indices('/') {
        model.insert(long[..at].to_owned(), directory());
    }
    model.insert(long.clone(), file("deep"));
    let snapshot = snapshot(&repository, &model);
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("a.tar");
    fs::write(
        &archive,
        export(&repository, &snapshot, "", &ExportContent::Plain),
    )
    .unwrap();
    let out = directory.path().join("out");
    fs::create_dir(&out).unwrap();
    tar(&["-xpf", archive.to_str().unwrap()], &out);
    assert_eq!(fs::read_to_string(out.join(&long)).unwrap(), "deep");
    assert_eq!(
        fs::read_to_string(out.join("dir/ünï\ncode")).unwrap(),
        "text"
    );
    assert_eq!(fs::read(out.join("large")).unwrap(), vec![7; 3_000_000]);
    let target = fs::read_link(out.join("link")).unwrap();
    assert_eq!(target.to_str().unwrap(), "t".repeat(200));
    let meta = fs::metadata(out.join("dir/run")).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o755);
    assert_eq!(
        (meta.mtime(), meta.mtime_nsec()),
        (1_700_000_000, 123_456_789)
    );
    let meta = fs::metadata(out.join("dir")).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o750);
}

#[test]
fn archives_of_gnu_tar_are_read_in_every_format() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("from");
    let long = "n".repeat(120);
    fs::create_dir_all(at.join("dir/empty")).unwrap();
    fs::write(at.join("dir/file"), "content").unwrap();
    symlink("dir/file", at.join("link")).unwrap();
    fs::hard_link(at.join("dir/file"), at.join("hard")).unwrap();
    let sparse = fs::File::create(at.join("sparse")).unwrap();
    use std::os::unix::fs::FileExt;
    for piece in 0..40u64 {
        sparse.write_all_at(b"piece", piece * (1 << 18)).unwrap();
    }
    sparse.set_len((40 << 18) + 3).unwrap();
    let expected = fs::read(at.join("sparse")).unwrap();
    for format in ["v7", "ustar", "gnu", "oldgnu", "posix"] {
        for option in ["--no-acls", "--sparse"] {
            // These formats support neither sparse files nor long names.
            let is_old = ["v7", "ustar"].contains(&format);
            if is_old && option == "--sparse" {
                continue;
            }
            let named = at.join(&long);
            if is_old {
                drop(fs::remove_file(&named));
            } else {
                fs::write(&named, "long").unwrap();
            }
            let format = format!("--format={format}");
            let archive = tar(&["-cf", "-", &format, option, "."], &at);
            let received = read(&repository(), &archive).unwrap();
            let found = files(&received);
            assert_eq!(found["dir/file"], b"content", "{format}");
            assert_eq!(found["hard"], b"content", "{format}");
            assert_eq!(found["link"], b"dir/file", "{format}");
            assert!(found.contains_key("dir/empty/"), "{format}");
            assert!(found["sparse"] == expected, "{format} {option}");
            assert_eq!(found.contains_key(&long), !is_old, "{format}");
        }
    }
}
