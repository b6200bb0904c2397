//! Statements that run often look only at what they need.

use sqlx::Row;

use super::super::SqliteCatalog;
use super::Temporary;
use crate::conformance::Place;

/// What SQLite does for a statement, a line a step.
async fn plan(catalog: &SqliteCatalog, statement: &str) -> String {
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let rows = sqlx::query(explain).fetch_all(catalog.database.readers());
    let rows = rows.await.unwrap();
    let steps: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
    steps.join("\n")
}

#[tokio::test]
async fn no_statement_reads_a_whole_table_or_sorts_it() {
    use super::super::sandboxes::{COUNT_ALL, COUNT_OF_KEY};
    let place = Temporary::new();
    let catalog = place.open().await;
    let list = "SELECT * FROM sandboxes WHERE tenant = ? AND (created, id) < (?, ?) \
                ORDER BY created DESC, id DESC LIMIT ? OFFSET ?";
    let list_all = "SELECT * FROM sandboxes WHERE 1 = 1 \
                    ORDER BY created DESC, id DESC LIMIT ? OFFSET ?";
    for (statement, index) in [
        (list, "sandboxes_by_tenant (tenant=? AND"),
        (list_all, "sandboxes_by_age"),
        (COUNT_OF_KEY, "sandboxes_by_key (tenant=? AND api_key=?)"),
        (COUNT_ALL, "COVERING INDEX sandboxes_by_"),
        (
            "SELECT * FROM sandboxes WHERE removing = 0 AND expires <= ? \
             ORDER BY expires, id LIMIT ?",
            "sandboxes_by_expiry (expires<?)",
        ),
        (
            "SELECT state, count(*) FROM sandboxes WHERE removing = 0 AND tenant = ? \
             GROUP BY state",
            "COVERING INDEX sandboxes_by_state (tenant=?)",
        ),
        ("SELECT * FROM api_keys WHERE hash = ?", "(hash=?)"),
        (
            "SELECT rowid FROM requests WHERE keep_until <= ? LIMIT ?",
            "requests_by_age (keep_until<?)",
        ),
        (
            "DELETE FROM requests WHERE status IS NULL",
            "requests_running",
        ),
    ] {
        let plan = plan(&catalog, statement).await;
        assert!(plan.contains(index), "{statement}:\n{plan}");
        assert!(
            !plan.contains("TEMP B-TREE FOR ORDER"),
            "{statement}:\n{plan}"
        );
    }
}
