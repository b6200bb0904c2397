//! Copies between SQLite and PostgreSQL.

mod databases;
mod events;
mod failures;
mod filled;
mod refusals;

use futures::{StreamExt, stream};

use self::databases::{File, Server, assert_same, copy};
use self::filled::{add_edges, filled};
use super::{AnyCatalog, BATCH_BYTES, Transferred, Value, next_batch, transfer};
use crate::catalog::{Agents, Settings};
use crate::conformance::Backend;
use crate::conformance::samples::{AGENT, ALICE, agent, furnished, id_of};
use crate::found::{GENERATION, INSTALLATION};

#[tokio::test]
async fn a_catalog_is_the_same_after_the_way_to_postgres_and_back() {
    let (first, server, second) = (File::new(), Server::new(), File::new());
    let sqlite = filled(&first).await;
    first.execute(add_edges()).await;
    let before = first.dump().await;
    for (table, rows) in &before {
        assert!(!rows.is_empty(), "no sample has a row in `{table}`");
    }

    let postgres = server.open().await;
    let there = copy(&sqlite, &postgres).await.unwrap();
    let back = second.open().await;
    assert_eq!(copy(&postgres, &back).await.unwrap(), there);
    assert_same(&second.dump().await, &before);
    for Transferred { table, rows } in &there {
        assert_eq!(*rows, before[table].len() as u64, "{table}");
    }
    assert_eq!(there.len() + 1, before.len(), "all but sqlite_sequence");
    for name in [INSTALLATION, GENERATION] {
        let value = sqlite.setting(name).await.unwrap();
        assert!(value.is_some(), "{name}");
        assert_eq!(postgres.setting(name).await.unwrap(), value);
        assert_eq!(back.setting(name).await.unwrap(), value);
    }
}

#[tokio::test]
async fn the_copy_can_be_used() {
    let (file, server) = (File::new(), Server::new());
    let (sqlite, postgres) = (filled(&file).await, server.open().await);
    copy(&sqlite, &postgres).await.unwrap();
    let found = postgres.agent(ALICE, &id_of(AGENT)).await.unwrap();
    assert_eq!(found, Some(agent(ALICE, AGENT)));
    let other = agent(ALICE, "other");
    postgres.add_agent(&other).await.unwrap();
    let found = postgres.agents(ALICE).await.unwrap();
    assert!(found.contains(&other) && found.len() == 2);
    let sessions = sqlite.sessions().await.unwrap();
    assert_eq!(postgres.sessions().await.unwrap(), sessions);
}

#[tokio::test]
async fn databases_of_one_kind_can_be_copied() {
    let file = File::new();
    let sqlite = filled(&file).await;
    let (other_file, last_file) = (File::new(), File::new());
    let other = other_file.open().await;
    let copied = copy(&sqlite, &other).await.unwrap();
    assert_same(&other_file.dump().await, &file.dump().await);
    let servers = [Server::new(), Server::new()];
    let [one, two] = [servers[0].open().await, servers[1].open().await];
    copy(&sqlite, &one).await.unwrap();
    assert_eq!(copy(&one, &two).await.unwrap(), copied);
    copy(&two, &last_file.open().await).await.unwrap();
    assert_same(&last_file.dump().await, &file.dump().await);
}

#[tokio::test]
async fn progress_is_reported_for_each_batch() {
    const MANY: &str = "WITH RECURSIVE numbers (n) AS \
         (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1201) \
         INSERT INTO settings SELECT 'name ' || n, 'value ' || n FROM numbers";
    let (first, server, second) = (File::new(), Server::new(), File::new());
    let sqlite = furnished(&first).await;
    first.execute(MANY).await;
    let (postgres, back) = (server.open().await, second.open().await);
    let ways: [(AnyCatalog, AnyCatalog); 2] = [
        ((&sqlite).into(), (&postgres).into()),
        ((&postgres).into(), (&back).into()),
    ];
    for (from, to) in ways {
        let mut seen = Vec::new();
        let mut progress = |it: &Transferred| seen.push((it.table.clone(), it.rows));
        transfer(from, to, &mut progress).await.unwrap();
        seen.retain(|(table, _)| table == "settings");
        let expected = [500, 1000, 1201].map(|rows| ("settings".to_owned(), rows));
        assert_eq!(seen, expected);
    }
    assert_same(&second.dump().await, &first.dump().await);
}

#[tokio::test]
async fn a_batch_of_large_rows_is_short() {
    let row = || Ok(vec![Value::Bytes(vec![0; BATCH_BYTES / 2])]);
    let mut rows = stream::iter((0..5).map(|_| row())).fuse().boxed();
    let mut lengths = Vec::new();
    while lengths.last() != Some(&0) {
        lengths.push(next_batch(&mut rows).await.unwrap().len());
    }
    assert_eq!(lengths, [2, 2, 1, 0]);
}
