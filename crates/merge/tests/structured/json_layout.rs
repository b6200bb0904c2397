//! JSON: the layout of a merged text.

use elevo_merge::Json;

use crate::support::{alike, clean, conflict};

#[test]
fn unchanged_values_keep_their_spelling() {
    let base = "\u{feff}{\"big\":123456789012345678901234567890 ,\n\t\"f\" : 1.0e+05,  \"s\":\"\\u00e9\\/\",\n\"l\": [ 1,2,\n3 ], \"x\": 1, \"y\": 1}\r\n\n";
    let ours = base.replace("\"x\": 1", "\"x\": 2");
    let theirs = base.replace("\"y\": 1", "\"y\": 0.10");
    let merged = ours.replace("\"y\": 1", "\"y\": 0.10");
    assert_eq!(alike(&Json, base, &ours, &theirs), merged);
}

#[test]
fn an_added_entry_is_laid_out_like_its_neighbours() {
    let base = "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": 1\n  }\n}\n";
    let ours = "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": 1,\n    \"d\": 2\n  },\n  \"e\": 3\n}\n";
    let theirs =
        "{\n  \"a\": 1,\n  \"aa\": {\n    \"x\": []\n  },\n  \"b\": {\n    \"c\": 1\n  }\n}\n";
    assert_eq!(
        alike(&Json, base, ours, theirs),
        "{\n  \"a\": 1,\n  \"aa\": {\n    \"x\": []\n  },\n  \"b\": {\n    \"c\": 1,\n    \"d\": 2\n  },\n  \"e\": 3\n}\n"
    );
}

#[test]
fn an_entry_from_a_file_of_another_layout_takes_the_layout_here() {
    let base = r#"{"a": 1, "b": {"c": 1}}"#;
    let ours = "{\n    \"a\": 1,\n    \"b\": {\n        \"c\": 1\n    }\n}\n";
    let theirs = r#"{"a": 1, "b": {"c": 1, "d": 2}, "e": 5}"#;
    assert_eq!(
        clean(&Json, base, ours, theirs),
        "{\n    \"a\": 1,\n    \"b\": {\n        \"c\": 1,\n        \"d\": 2\n    },\n    \"e\": 5\n}\n"
    );
    assert_eq!(
        clean(&Json, base, theirs, ours),
        clean(&Json, base, ours, theirs)
    );

    let base = "{\n  \"a\": 1\n}";
    let ours = "{\r\n\t\"a\": 1\r\n}";
    let theirs = "{\n  \"a\": 1,\n  \"o\": {\n    \"p\": [\n      1\n    ]\n  }\n}";
    let merged = "{\r\n\t\"a\": 1,\r\n\t\"o\": {\r\n\t\t\"p\": [\r\n\t\t\t1\r\n\t\t]\r\n\t}\r\n}";
    assert_eq!(alike(&Json, base, ours, theirs), merged);
}

#[test]
fn a_change_merges_into_a_reformatted_file() {
    let base = r#"{"a":1,"b":{"c":1,"d":[1,2]}}"#;
    let pretty = "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": 1,\n    \"d\": [\n      1,\n      2\n    ]\n  }\n}\n";
    let changed = r#"{"a":1,"b":{"c":7,"d":[1,2]}}"#;
    let merged = pretty.replace("\"c\": 1", "\"c\": 7");
    assert_eq!(alike(&Json, base, pretty, changed), merged);
}

#[test]
fn ours_stays_where_both_only_reformatted() {
    let base = r#"{"a":1,"b":2}"#;
    let ours = "{ \"a\": 1, \"b\": 2 }";
    let theirs = "{\n  \"a\": 1,\n  \"b\": 2\n}\n";
    assert_eq!(clean(&Json, base, ours, theirs), format!("{ours}\n"));
    let again = "{\n\t\"a\": 1,\n\t\"b\": 2\n}";
    assert_eq!(clean(&Json, base, again, theirs), format!("{again}\n"));
}

#[test]
fn removing_entries_leaves_no_gaps() {
    for (base, ours, theirs, merged) in [
        (
            r#"{"a": 1, "b": 2, "c": 3}"#,
            r#"{"b": 2, "c": 3}"#,
            r#"{"a": 1, "b": 2, "c": 4}"#,
            r#"{"b": 2, "c": 4}"#,
        ),
        (
            r#"{ "a": 1, "b": 2 }"#,
            r#"{ "b": 2 }"#,
            r#"{ "a": 1 }"#,
            "{ }",
        ),
        (
            "{\n  \"a\": 1,\n\n  \"b\": 2\n}",
            "{\n  \"b\": 2\n}",
            "{\n  \"a\": 1,\n\n  \"b\": 3\n}",
            "{\n  \"b\": 3\n}",
        ),
        (
            "[\n  1,\n  2,\n  3\n]",
            "[\n  1,\n  2\n]",
            "[\n  2,\n  3\n]",
            "[\n  2\n]",
        ),
        ("{\"a\": 1}", "{}", "{\"a\": 1, \"b\": 2}", "{\"b\": 2}"),
        (
            "{\"a\": 1}",
            "{}",
            "{\n  \"a\": 1,\n  \"b\": 2\n}",
            "{\n  \"b\": 2\n}",
        ),
    ] {
        assert_eq!(alike(&Json, base, ours, theirs), merged);
    }
}

const COMMENTED: &str = "// head\n{\n  // about a\n  \"a\": 1, // one\n\n  /* about b */\n  \"b\": 2, // two\n  \"c\": 3 // three\n  // end\n}\n// tail\n";

#[test]
fn comments_stay_with_their_values() {
    let ours = COMMENTED.replace("3 // three", "3, // three\n  \"d\": 4 // four");
    let theirs = COMMENTED.replace(
        "\"b\": 2, // two",
        "\"b\": 20, // two\n  \"bb\": 5, // five",
    );
    let merged = ours.replace(
        "\"b\": 2, // two",
        "\"b\": 20, // two\n  \"bb\": 5, // five",
    );
    assert_eq!(alike(&Json, COMMENTED, &ours, &theirs), merged);
}

#[test]
fn a_comment_that_one_side_changed_is_changed() {
    let ours = COMMENTED
        .replace("// head", "// HEAD")
        .replace("// one", "// ONE")
        .replace("// end", "// END");
    let theirs = COMMENTED
        .replace("/* about b */", "/* ABOUT b */")
        .replace("\"a\": 1", "\"a\": 10")
        .replace("// tail", "// TAIL");
    let merged = "// HEAD\n{\n  // about a\n  \"a\": 10, // ONE\n\n  /* ABOUT b */\n  \"b\": 2, // two\n  \"c\": 3 // three\n  // END\n}\n// TAIL\n";
    assert_eq!(alike(&Json, COMMENTED, &ours, &theirs), merged);
}

#[test]
fn a_comment_that_both_sides_changed_is_a_conflict() {
    let ours = COMMENTED.replace("// one", "// uno");
    let theirs = COMMENTED.replace("// one", "// eins");
    let (hunks, suggestion) = conflict(&Json, COMMENTED, &ours, &theirs);
    assert_eq!(hunks, ["/a: // one | // uno | // eins"]);
    assert_eq!(suggestion, theirs);
}

#[test]
fn a_comment_never_swallows_the_text_after_it() {
    let base = "{\"a\": 1}";
    let ours = "{\"a\": 1 // x\n}";
    let theirs = "{ \"a\": 1, \"b\": 2 }";
    let merged = clean(&Json, base, ours, theirs);
    assert_eq!(merged, "{ \"a\": 1, // x\n \"b\": 2\n}");
    assert_eq!(
        clean(&Json, base, theirs, ours).matches("// x\n").count(),
        1
    );
}

#[test]
fn a_trailing_comma_stays_where_the_file_had_one() {
    let base = "[\n  1,\n  2,\n]";
    let merged = alike(&Json, base, "[\n  0,\n  1,\n  2,\n]", "[\n  1,\n]");
    assert_eq!(merged, "[\n  0,\n  1,\n]");
    let merged = alike(
        &Json,
        "{\"a\": 1, \"b\": 1}",
        "{\"a\": 2, \"b\": 1}",
        "{\"a\": 1, \"b\": 2,}",
    );
    assert_eq!(merged, "{\"a\": 2, \"b\": 2,}");
}

#[test]
fn the_end_of_the_file_is_merged_too() {
    let merged = alike(&Json, "{\"a\": 1}", "{\"a\": 2}", "{\"a\": 1}\n");
    assert_eq!(merged, "{\"a\": 2}\n");
}
