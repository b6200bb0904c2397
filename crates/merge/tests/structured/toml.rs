//! TOML.

use elevo_merge::{Driver, Merged, Toml};
use proptest::prelude::*;

use crate::support::{alike, clean, conflict, merge};

const MANIFEST: &str = r#"# A package.
[package]
name = "a"       # its name
version = "0.1.0"

[dependencies]
# Errors.
anyhow = "1.0"
serde = { version = "1.0", features = ["derive"] }

[[bin]]
name = "one"
path = "one.rs"

[[bin]]
name = "two"
path = "two.rs"

[profile.dev]
debug = false
"#;

#[test]
fn claims_files_by_their_names() {
    assert!(Toml.claims(b"Cargo.toml"));
    assert!(!Toml.claims(b"Cargo.lock"));
}

#[test]
fn both_add_a_dependency() {
    let serde = "serde = { version = \"1.0\", features = [\"derive\"] }\n";
    let ours = MANIFEST.replace(serde, &format!("{serde}toml = \"1\" # to read\n"));
    let theirs = MANIFEST.replace(serde, &format!("{serde}# For tests.\nrand = \"0.10\"\n"));
    let both = format!("{serde}# For tests.\nrand = \"0.10\"\ntoml = \"1\" # to read\n");
    let merged = MANIFEST.replace(serde, &both);
    assert_eq!(alike(&Toml, MANIFEST, &ours, &theirs), merged);
}

#[test]
fn changes_of_different_keys_merge_at_any_depth() {
    let changes = [
        ("version = \"0.1.0\"", "version = \"0.2.0\""),
        ("# its name", "# the name"),
        ("version = \"1.0\", f", "version = \"1.1\", f"),
        ("[\"derive\"]", "[\"derive\", \"rc\"]"),
        ("# Errors.\nanyhow = \"1.0\"\n", ""),
        ("path = \"one.rs\"\n", "path = \"one.rs\"\ntest = false\n"),
        ("path = \"two.rs\"", "path = \"2.rs\""),
        (
            "[profile.dev]\ndebug = false\n",
            "[profile.dev]\ndebug = false\n\n[profile.release]\nlto = \"fat\"\n",
        ),
        (
            "[[bin]]\nname = \"one\"",
            "[[bin]]\nname = \"zero\"\n\n[[bin]]\nname = \"one\"",
        ),
        ("# A package.\n", "# A package.\nedition = 3\n\n"),
    ];
    for ours in changes {
        for theirs in changes.iter().filter(|theirs| **theirs != ours) {
            let our_text = MANIFEST.replace(ours.0, ours.1);
            let their_text = MANIFEST.replace(theirs.0, theirs.1);
            assert!(
                our_text != MANIFEST && their_text != MANIFEST,
                "{ours:?} {theirs:?}"
            );
            let merged = alike(&Toml, MANIFEST, &our_text, &their_text);
            let expected = MANIFEST.replace(ours.0, ours.1).replace(theirs.0, theirs.1);
            assert_eq!(merged, expected, "{ours:?} {theirs:?}");
        }
    }
}

#[test]
fn conflicts_name_their_place() {
    for (from, ours, theirs, hunk) in [
        (
            "version = \"0.1.0\"",
            "version = \"2\"",
            "version = \"3\"",
            "/package/version: \"0.1.0\" | \"2\" | \"3\"",
        ),
        (
            "debug = false",
            "debug = true",
            "debug = 1",
            "/profile/dev/debug: false | true | 1",
        ),
        (
            "version = \"1.0\", f",
            "version = \"2\", f",
            "version = \"3\", f",
            "/dependencies/serde/version: \"1.0\" | \"2\" | \"3\"",
        ),
        (
            "path = \"two.rs\"\n",
            "path = \"2.rs\"\n",
            "",
            "/bin/1/path: \"two.rs\" | \"2.rs\" | -",
        ),
        (
            "anyhow = \"1.0\"",
            "anyhow.version = \"2\"\nanyhow.path = 'x'",
            "anyhow.version = \"3\"",
            "/dependencies/anyhow/version: - | \"2\" | \"3\"",
        ),
        (
            "# its name",
            "# n",
            "# m",
            "/package/name: # its name | # n | # m",
        ),
    ] {
        let our_text = MANIFEST.replace(from, ours);
        let their_text = MANIFEST.replace(from, theirs);
        let (hunks, suggestion) = conflict(&Toml, MANIFEST, &our_text, &their_text);
        assert_eq!(hunks, [hunk]);
        assert_eq!(suggestion, their_text);
    }
}

#[test]
fn statements_never_end_up_in_another_table() {
    let merged = alike(&Toml, "a = 1\n", "a = 1\n\n[b]\nc = 1\n", "a = 1\nz = 2\n");
    assert_eq!(merged, "a = 1\nz = 2\n\n[b]\nc = 1\n");
    let merged = alike(
        &Toml,
        "[b]\nc = 1\n",
        "[a]\nx = 1\n\n[b]\nc = 1\n",
        "z = 2\n\n[b]\nc = 1\n",
    );
    assert!(merged.starts_with("z = 2\n"), "{merged}");
}

#[test]
fn rejects_invalid_toml_and_tables_written_in_two_ways() {
    for (base, ours, theirs) in [
        ("[a]\nb = 1\n", "a = { b = 2 }\n", "[a]\nb = 1\nc = 3\n"),
        (
            "[a]\nb.c = 1\n",
            "[a]\nb.c = 1\nb.d = 1\n",
            "[a]\n[a.b]\nc = 1\ne = 2\n",
        ),
        ("[a]\nx = 1\n", "", "[a]\nx = 1\n[a.b]\ny = 1\n"),
        ("a = 1", "a = 2", "a = 3\na = 4"),
        ("a = 1", "a = 2", "a = "),
        ("a = 1", "a = 2", "a = 1 b = 2"),
        ("a = 1", "a = 2", "[[a]]\n[b]\n[[a]]\n"),
        ("a = 1", "a = 2", "\u{0}"),
    ] {
        assert_eq!(
            merge(&Toml, base, ours, theirs),
            Merged::NotMine,
            "{theirs}"
        );
        assert_eq!(
            merge(&Toml, base, theirs, ours),
            Merged::NotMine,
            "{theirs}"
        );
    }
    let deep = format!("a = {}{}", "[".repeat(1000), "]".repeat(1000));
    assert_eq!(merge(&Toml, "a = 1", "a = 2", &deep), Merged::NotMine);
    let unclosed = format!("a = {}", "{b=".repeat(100_000));
    assert_eq!(merge(&Toml, "a = 1", "a = 2", &unclosed), Merged::NotMine);
    let keys = format!("{}a = 1", "a.".repeat(100_000));
    assert_eq!(merge(&Toml, "a = 1", "a = 2", &keys), Merged::NotMine);
}

#[test]
fn values_keep_their_spelling() {
    let base = "a = 0x_FF\nb = 1_000 # k\nc = \"\"\"\n  x\n  y\"\"\"\nd = 1979-05-27T07:32:00Z\ne = [\n  1,\n  2, # two\n]\nf = inf\n\"g h\" . 'i' = 1e5\n".replace("0x_FF", "0xFF");
    let ours = base.replace("1_000", "2_000");
    let theirs = base.replace("2, # two", "2, # two\n  3,");
    let merged = ours.replace("2, # two", "2, # two\n  3,");
    assert_eq!(alike(&Toml, &base, &ours, &theirs), merged);
    assert_eq!(
        clean(&Toml, "a = 1\n", "a = 255\n", "a = 0xff\n"),
        "a = 255\n"
    );
}

/// A file of statements and tables whose values are numbers.
fn files() -> impl Strategy<Value = Vec<(String, Vec<(String, u8)>)>> {
    let statements = || {
        prop::collection::btree_map("[a-d]", 0..4u8, 0..4)
            .prop_map(|map| map.into_iter().collect::<Vec<_>>())
    };
    let tables = prop::collection::btree_map("[t-v](\\.[t-v]){0,2}", statements(), 0..4);
    (statements(), tables).prop_map(|(first, tables)| {
        let mut file = vec![(String::new(), first)];
        file.extend(tables);
        file
    })
}

fn written(file: &[(String, Vec<(String, u8)>)]) -> String {
    let mut text = String::new();
    for (table, statements) in file {
        if !table.is_empty() {
            text += &format!("\n[{table}]\n");
        }
        for (key, value) in statements {
            text += &format!("{key} = {value} # {key}\n");
        }
    }
    text
}

proptest! {
    #[test]
    fn any_three_files_merge_alike_from_both_sides(
        base in files(), ours in files(), theirs in files(),
    ) {
        let [base, ours, theirs] = [base, ours, theirs].map(|file| written(&file));
        match (merge(&Toml, &base, &ours, &theirs), merge(&Toml, &base, &theirs, &ours)) {
            (Merged::Clean(one), Merged::Clean(other)) => {
                let [one, other] = [one, other].map(|text| {
                    String::from_utf8(text).unwrap().parse::<toml::Table>().unwrap()
                });
                prop_assert_eq!(one, other);
            }
            (Merged::Conflict(one), Merged::Conflict(other)) => {
                prop_assert_eq!(one.hunks.len(), other.hunks.len());
            }
            (Merged::NotMine, Merged::NotMine) => {}
            (one, other) => prop_assert!(false, "{one:?} against {other:?}"),
        }
    }

    #[test]
    fn invalid_toml_does_not_panic(text in ".{0,40}", cut in 0..MANIFEST.len()) {
        let cut = MANIFEST.get(..cut).unwrap_or_default();
        let changed = MANIFEST.replace("0.1.0", "0.2.0");
        merge(&Toml, MANIFEST, &changed, cut);
        merge(&Toml, MANIFEST, &changed, &text);
        merge(&Toml, MANIFEST, &changed, &format!("{cut}{text}"));
    }
}
