use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use elevo_catalog::{SqliteCatalog, SqliteOptions};
use tempfile::TempDir;

use super::*;
use crate::platform::vault::keys::KeyFileError;

const TENANT: TenantId = TenantId::LOCAL;

async fn vault(directory: &TempDir, file: &str) -> Vault {
    let catalog = directory.path().join("catalog.db");
    let options = SqliteOptions::default();
    let catalog = SqliteCatalog::open(&catalog, &options).await.unwrap();
    Vault::new(directory.path().join(file), Arc::new(catalog))
}

#[tokio::test]
async fn a_secret_opens_only_for_its_purpose_and_tenant() {
    let directory = tempfile::tempdir().unwrap();
    let vault = vault(&directory, "key").await;
    vault.open().await.unwrap();
    let belonging = Belonging::variables(TENANT);
    let sealed = vault.seal(belonging, b"secret").await.unwrap();
    assert_eq!(vault.unseal(belonging, &sealed).unwrap(), b"secret");
    assert!(vault.is_present(&sealed) && is_sealed(&sealed));
    let others = [
        Belonging::variables(TenantId::new([7; 16])),
        Belonging::webhook(Some(TENANT)),
        Belonging::webhook(None),
    ];
    for other in others {
        let refused = vault.unseal(other, &sealed).unwrap_err();
        assert_eq!(refused.code, ErrorCode::SecretUnreadable);
    }
    let again = vault.seal(belonging, b"secret").await.unwrap();
    assert_ne!(sealed, again, "a nonce must not come twice");
}

#[tokio::test]
async fn a_changed_value_does_not_open() {
    let directory = tempfile::tempdir().unwrap();
    let vault = vault(&directory, "key").await;
    let belonging = Belonging::variables(TENANT);
    let sealed = vault.seal(belonging, b"secret").await.unwrap();
    for at in 0..sealed.len() {
        for changed in [
            format!("{}{}", &sealed[..at], &sealed[at + 1..]),
            format!("{}-{}", &sealed[..at], &sealed[at + 1..]),
            sealed[..at].to_owned(),
        ] {
            let opened = vault.unseal(belonging, &changed);
            assert!(changed == sealed || opened.is_err(), "{changed}");
        }
    }
}

#[tokio::test]
async fn a_file_without_the_key_of_the_catalog_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let made = vault(&directory, "key").await;
    let sealed = made
        .seal(Belonging::webhook(None), b"secret")
        .await
        .unwrap();
    let id = made.present_key().unwrap();
    let other = vault(&directory, "other").await;
    let refused = other.open().await.unwrap_err().to_string();
    assert!(
        refused.contains("does not exist or has no key"),
        "{refused}"
    );
    let file = directory.path().join("other");
    fs::write(&file, format!("lost {id}\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    other.open().await.unwrap();
    assert!(other.unseal(Belonging::webhook(None), &sealed).is_err());
    // A new key is written above the line of the lost key, which stays.
    other
        .seal(Belonging::webhook(None), b"another")
        .await
        .unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.ends_with(&format!("lost {id}\n")), "{text}");
}

/// Two servers with one catalog start without a key file.
#[tokio::test]
async fn a_second_server_makes_no_other_key() {
    let directory = tempfile::tempdir().unwrap();
    let one = vault(&directory, "one").await;
    let two = Vault::new(directory.path().join("two"), one.catalog.clone());
    two.open().await.unwrap();
    one.seal(Belonging::webhook(None), b"secret").await.unwrap();
    let refused = two.seal(Belonging::webhook(None), b"another").await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::SecretUnreadable);
    fs::copy(directory.path().join("one"), directory.path().join("two")).unwrap();
    two.open().await.unwrap();
    two.seal(Belonging::webhook(None), b"another")
        .await
        .unwrap();
}

#[test]
fn rejects_key_files_that_are_readable_by_others_or_not_valid() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let with = |text: &str, mode: u32| {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        Keys::read(&path)
    };
    let key = "0f".repeat(32);
    assert!(
        !with(&format!("# a comment\n\n {key} \n"), 0o600)
            .unwrap()
            .is_empty()
    );
    assert!(!with(&key.to_uppercase(), 0o640).unwrap().is_empty());
    assert!(matches!(with(&key, 0o604), Err(KeyFileError::Open { .. })));
    for (text, bad) in [
        (format!("{key}\n{key}0"), 2),
        ("lost 12".into(), 1),
        (format!("#\n#\n{}g", &key[1..]), 3),
        ("x".repeat(100_000), 1),
    ] {
        let refused = with(&text, 0o600).unwrap_err();
        let KeyFileError::NotAKey { line, .. } = &refused else {
            panic!("{refused}");
        };
        assert_eq!(*line, bad);
        assert!(!refused.to_string().contains(&key[..8]), "{refused}");
    }
}

#[test]
fn uses_a_key_file_that_another_process_created() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("below").join("key");
    let ids: Vec<_> = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Keys::make(&path).unwrap()))
            .collect();
        let made = makers.into_iter().map(|maker| maker.join().unwrap());
        made.map(|keys| keys.first().unwrap().0.clone()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}
