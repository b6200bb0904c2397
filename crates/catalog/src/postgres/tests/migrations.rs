//! Both kinds of migrations, with those of `migrations/` beside this file.

use elevo_testkit::wait;
use futures::future::join;
use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};

use super::Temporary;
use crate::error::Error;
use crate::postgres::deferred::{self, DEFERRED};
use crate::postgres::migrations::migrate;

static REQUIRED: Migrator = sqlx::migrate!("src/postgres/tests/migrations/required");
static INDEXES: Migrator = sqlx::migrate!("src/postgres/tests/migrations/deferred");

const IS_WAITED_FOR: &str = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity \
     WHERE datname = current_database() AND wait_event_type = 'Lock')";

const VALID: &str = "SELECT count(*) FROM pg_index WHERE indisvalid \
     AND indexrelid IN (to_regclass('rows_by_n'), to_regclass('rows_by_more'))";

async fn connect(temporary: &Temporary) -> PgConnection {
    PgConnection::connect(&temporary.0.url()).await.unwrap()
}

async fn run(connection: &mut PgConnection, statement: &'static str) {
    let ran = sqlx::raw_sql(statement).execute(connection).await;
    ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// Waits until a connection waits for a lock.
async fn wait_for_lock(connection: &mut PgConnection) {
    wait::until_async("a connection waits for a lock", async || {
        let select = sqlx::query_scalar(IS_WAITED_FOR).fetch_one(&mut *connection);
        let is_waited_for: bool = select.await.unwrap();
        is_waited_for.then_some(())
    })
    .await;
}

async fn count_valid(connection: &mut PgConnection) -> i64 {
    let select = sqlx::query_scalar(VALID).fetch_one(connection);
    select.await.unwrap()
}

/// The migration gives way to a reader while a transaction holds it up, and is
/// repeated.
#[tokio::test]
async fn a_required_migration_that_waits_for_a_lock_does_not_block_readers() {
    let temporary = Temporary::new();
    let (mut migrating, mut holder) = (connect(&temporary).await, connect(&temporary).await);
    let first = REQUIRED.run_direct(Some(1), &mut migrating, false).await;
    first.unwrap();
    run(&mut holder, "BEGIN; LOCK TABLE rows IN ACCESS SHARE MODE").await;
    let read = async {
        let mut reader = connect(&temporary).await;
        wait_for_lock(&mut reader).await;
        // Queues behind the migration, which wants the table for itself.
        run(&mut reader, "SELECT count(*) FROM rows").await;
        run(&mut holder, "COMMIT").await;
    };
    let (migrated, ()) = join(migrate(&mut migrating, &REQUIRED), read).await;
    migrated.unwrap();
    run(&mut migrating, "SELECT more FROM rows").await;
}

/// A migration that fails leaves no lock behind, which would block the other
/// servers.
#[tokio::test]
async fn a_failed_migration_is_not_repeated_and_leaves_no_lock() {
    let temporary = Temporary::new();
    let (mut one, mut other) = (connect(&temporary).await, connect(&temporary).await);
    run(&mut one, "CREATE TABLE rows (n bigint)").await;
    let failed = migrate(&mut one, &REQUIRED).await;
    assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    run(&mut other, "DROP TABLE rows").await;
    migrate(&mut other, &REQUIRED).await.unwrap();
}

/// One server creates the indexes. Meanwhile others neither wait for it nor do
/// the same, and rows are written.
#[tokio::test]
async fn an_index_is_created_by_one_server_and_blocks_no_writer() {
    let temporary = Temporary::new();
    let [mut one, mut two, mut holder] = [
        connect(&temporary).await,
        connect(&temporary).await,
        connect(&temporary).await,
    ];
    migrate(&mut one, &REQUIRED).await.unwrap();
    run(&mut holder, "BEGIN; INSERT INTO rows VALUES (1, 1)").await;
    let meanwhile = async {
        wait_for_lock(&mut two).await;
        run(&mut two, "INSERT INTO rows VALUES (2, 2)").await;
        assert!(!deferred::create(&mut two, &INDEXES).await.unwrap());
        run(&mut holder, "COMMIT").await;
    };
    let (created, ()) = join(deferred::create(&mut one, &INDEXES), meanwhile).await;
    assert!(created.unwrap());
    assert_eq!(count_valid(&mut two).await, 2);
    assert!(deferred::create(&mut two, &INDEXES).await.unwrap());
}

#[tokio::test]
async fn an_index_whose_creation_has_failed_is_created_again() {
    let temporary = Temporary::new();
    let (mut one, mut two) = (connect(&temporary).await, connect(&temporary).await);
    migrate(&mut one, &REQUIRED).await.unwrap();
    run(&mut one, "INSERT INTO rows VALUES (1, 1), (2, 1)").await;
    deferred::create(&mut one, &INDEXES).await.unwrap_err();
    assert_eq!(count_valid(&mut two).await, 1);
    run(&mut two, "UPDATE rows SET more = n").await;
    // The server ends the lock of a closed connection a moment later.
    one.close().await.unwrap();
    wait::until_async("the lock has ended", async || {
        let created = deferred::create(&mut two, &INDEXES).await;
        created.unwrap().then_some(())
    })
    .await;
    assert_eq!(count_valid(&mut two).await, 2);
}

/// The name of the file is how a server knows whether the index exists.
#[test]
fn each_deferred_migration_creates_the_index_that_its_file_is_named_after() {
    for file in DEFERRED.iter().chain(INDEXES.iter()) {
        let (sql, name) = (file.sql.as_str(), deferred::name(file));
        let rest = sql
            .trim_start_matches("CREATE ")
            .trim_start_matches("UNIQUE ");
        let start = format!("INDEX CONCURRENTLY {name} ON ");
        assert!(rest.starts_with(&start) && !sql.contains(';'), "{sql}");
    }
}
