//! Damaged stores and backups, and their repair.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Place, fields};

/// Returns content that does not compress.
fn noise() -> Vec<u8> {
    let mut state = 1_u64;
    let mut step = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..20_000).map(|_| step()).collect()
}

/// Creates a place with three commits and a large file, and a backup of it.
fn backed_up() -> (Place, PathBuf) {
    let place = Place::with_history();
    place.write("sub/large", noise());
    place.ok(["commit", "-m", "third"]);
    let made = place.json_one(["store", "backup", "../backups"]);
    let names = [
        "backup",
        "bytes",
        "files",
        "new_bytes",
        "removed",
        "store_of_server",
    ];
    assert_eq!(fields(&made), names);
    let backup = made["backup"].as_str().expect("a path").into();
    (place, backup)
}

/// Flips a bit in the middle of the file with large values.
fn harm(database: &Path) {
    let entries = fs::read_dir(database).expect("a database");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    let is_blob = |path: &PathBuf| path.extension().is_some_and(|end| end == "blob");
    let blob = paths.find(is_blob).expect("a blob file");
    let mut bytes = fs::read(&blob).expect("it can be read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 8;
    fs::write(&blob, bytes).expect("it can be written");
}

#[test]
fn a_whole_store_is_verified_and_needs_no_repair() {
    let (place, backup) = backed_up();
    let found = place.json_one(["store", "verify"]);
    assert_eq!(found["whole"], true);
    assert_eq!(found["snapshots"], 3);
    assert_eq!(found["references"], 3);
    let printed = place.ok(["store", "verify"]);
    assert!(printed.ends_with(": no damage\n"), "{printed}");
    assert_eq!(place.ok(["store", "repair"]), "Nothing is damaged\n");
    let backup = backup.to_str().unwrap();
    assert!(
        place
            .ok(["store", "verify", "--store", backup])
            .contains("no damage")
    );
    let other = Place::new();
    let printed = other.ok(["store", "verify", backup, "--store", "elsewhere"]);
    assert!(printed.contains("3 snapshots"), "{printed}");
    let empty = Place::new();
    assert!(empty.ok(["store", "verify"]).contains("0 objects"));
}

#[test]
fn damage_is_reported_with_its_paths_and_repaired_from_a_backup_or_files() {
    let (place, _) = backed_up();
    for from in ["../backups", "."] {
        harm(&place.path(".elevo/store/db"));
        let ended = place.run(["store", "verify"]);
        assert_eq!(ended.code, 6, "{}", ended.stderr);
        let printed = String::from_utf8(ended.stdout).unwrap();
        let head = &place.id("head")[..12];
        assert!(
            printed.contains(&format!("  in {head} sub/large")),
            "{printed}"
        );
        assert!(
            ended.stderr.contains("elevo store repair"),
            "{}",
            ended.stderr
        );
        assert_eq!(place.fails(6, ["cat", "head:sub/large"]), "store_damaged");

        assert_eq!(
            place.run(["store", "repair"]).code,
            6,
            "without a source nothing is repaired"
        );
        let repaired = place.json_one(["store", "repair", "--from", from]);
        assert_eq!(repaired["mended"], 1, "{repaired}");
        assert_eq!(repaired["after"]["whole"], true);
        assert_eq!(
            repaired["before"]["damage"][0]["places"][0]["path"],
            "sub/large"
        );
        place.ok(["store", "verify"]);
        let read = place.run(["cat", "head:sub/large"]);
        assert!(read.stdout == noise());
        // The repaired object is in memory or the log; a backup flushes it to a
        // file, so that the next pass can damage it.
        place.ok(["store", "backup", "../backups"]);
    }
}

#[test]
fn a_backup_is_restored_to_where_no_store_is() {
    let (place, backup) = backed_up();
    place.write("later", "later\n");
    place.ok(["commit", "-m", "fourth"]);
    let made = place.json_one(["store", "restore-backup", "../backups", "../restored"]);
    assert_eq!(
        fields(&made),
        ["backup", "bytes", "damaged", "files", "store"]
    );
    assert_eq!(
        made["backup"].as_str().map(Path::new),
        Some(backup.as_path())
    );
    let log = place.json(["log", "--store", "../restored"]);
    assert_eq!(log.len(), 3);
    place.ok(["commit", "../restored"]);
    assert_eq!(
        place.fails(4, ["store", "restore-backup", "../backups"]),
        "store_exists"
    );
    assert_eq!(
        place.fails(3, ["store", "restore-backup", ".", "../x"]),
        "backup_not_found"
    );
    let backup = backup.to_str().unwrap();
    assert_eq!(
        place.fails(4, ["import", ".", "--store", backup]),
        "is_a_backup"
    );
}

#[test]
fn a_damaged_backup_is_restored_only_if_that_is_accepted() {
    let (place, backup) = backed_up();
    harm(&backup.join("db"));
    let name = place.fails(6, ["store", "restore-backup", "../backups", "../restored"]);
    assert_eq!(name, "backup_damaged");
    assert_eq!(
        place.fails(3, ["log", "--store", "../restored/.elevo/store"]),
        "store_not_found"
    );
    place.ok([
        "store",
        "restore-backup",
        "../backups",
        "../restored",
        "--accept-damage",
    ]);
    assert_eq!(
        place
            .run(["store", "verify", "--store", "../restored"])
            .code,
        6
    );
    place.ok(["store", "repair", "--store", "../restored", "--from", "."]);
    place.ok(["store", "verify", "--store", "../restored"]);
}

#[test]
fn old_backups_are_deleted_on_request() {
    let (place, _) = backed_up();
    for _ in 0..3 {
        place.ok(["store", "backup", "../backups"]);
    }
    let made = place.json_one(["store", "backup", "../backups", "--keep", "2"]);
    assert_eq!(made["removed"].as_array().unwrap().len(), 3);
    let left = fs::read_dir(place.root().join("backups")).unwrap();
    // Two backups and the lock.
    assert_eq!(left.count(), 3);
    assert_eq!(
        place.fails(2, ["store", "backup", ".elevo/store/in"]),
        "backup_inside"
    );
}
