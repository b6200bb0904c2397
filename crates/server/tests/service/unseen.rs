//! An agent from which the history of a project is hidden: each response reads a
//! bounded number of rows of the catalog, and returns where to continue.

use reqwest::Method;
use serde_json::json;

use crate::harness::Service;
use crate::shared::{agent, project};

/// Maximum number of rows that the server reads for one response.
const LOOKED_AT: u64 = 10_000;

struct Unseen {
    service: Service,
    project: String,
    /// A key of the agent that may see nothing.
    key: String,
}

impl Unseen {
    /// Creates a project with one hidden step.
    async fn start() -> Self {
        let service = Service::start_without_engine(&[]);
        let (_, key) = agent(&service, "mole").await;
        let policy = json!({"default": "none"});
        let project = project(&service, policy, &[("secret", "first\n")]).await;
        Self {
            service,
            project,
            key,
        }
    }

    /// Adds steps like the first one, up to this number.
    async fn add_steps(&self, last: u64) {
        self.sql(&format!(
            "WITH RECURSIVE numbers (n) AS (VALUES (2) UNION ALL \
             SELECT n + 1 FROM numbers WHERE n < {last}) \
             INSERT INTO landings SELECT project, n, snapshot, parent, kind, agent, workspace, \
             api_key, message, NULL, counts, created FROM landings, numbers WHERE sequence = 1"
        ))
        .await;
    }

    /// Adds changes of paths to a step.
    async fn add_changes(&self, step: u64, count: u64) {
        self.sql(&format!(
            "WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL \
             SELECT n + 1 FROM numbers WHERE n < {count}) \
             INSERT INTO versions SELECT project, {step}, CAST(path || '-' || n AS BLOB), kind, \
             origin, entry_before, entry_after, files, whole, algorithm \
             FROM numbers, (SELECT * FROM versions WHERE sequence = 1 LIMIT 1)"
        ))
        .await;
    }

    async fn sql(&self, statement: &str) {
        self.service.sql(statement).await;
    }

    /// Walks the log as the agent. Returns where each page but the last ended.
    async fn pages(&self) -> Vec<u64> {
        let (mut ends, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/api/v1/projects/{}/steps?limit=1{cursor}", self.project);
            let page = self
                .service
                .expect_as(&self.key, Method::GET, &path, None, 200)
                .await;
            assert_eq!(page["items"], json!([]), "all steps are hidden");
            let Some(next) = page["next"].as_str() else {
                return ends;
            };
            ends.push(next.parse().unwrap());
            cursor = format!("&cursor={next}");
        }
    }
}

#[tokio::test]
async fn a_page_of_a_log_looks_at_a_bounded_number_of_steps() {
    let unseen = Unseen::start().await;
    assert_eq!(unseen.pages().await, [0; 0]);
    let last = LOOKED_AT + 3;
    unseen.add_steps(last).await;
    assert_eq!(unseen.pages().await, [last - LOOKED_AT + 1]);
}

#[tokio::test]
async fn a_page_of_a_log_looks_at_a_bounded_number_of_changes() {
    let unseen = Unseen::start().await;
    unseen.add_steps(6).await;
    for step in 2..=6 {
        unseen.add_changes(step, LOOKED_AT / 2).await;
    }
    // Two steps have more changes than one page reads.
    assert_eq!(unseen.pages().await, [5, 3]);
}

#[tokio::test]
async fn a_page_of_events_looks_at_a_bounded_number_of_changes() {
    let unseen = Unseen::start().await;
    unseen.add_steps(6).await;
    for step in 2..=6 {
        unseen.add_changes(step, LOOKED_AT / 2).await;
    }
    let events = "SELECT tenant, agent, kind, subject, at, \
                  json_set(data, '$.step', n) FROM events, numbers \
                  WHERE kind = 'project.landed' ORDER BY n";
    unseen
        .sql(&format!(
            "WITH numbers (n) AS (VALUES (2), (3), (4), (5), (6)) \
             INSERT INTO events (tenant, agent, kind, subject, at, data) {events}"
        ))
        .await;
    let newest = unseen.service.get("/api/v1/events").await["next"].clone();
    let newest: u64 = newest.as_str().unwrap().parse().unwrap();
    // Page by page the agent reaches the newest event, without seeing any.
    let (mut ends, mut last) = (Vec::new(), 0);
    while last < newest {
        let path = format!("/api/v1/events?cursor={last}&limit=1000");
        let page = unseen
            .service
            .expect_as(&unseen.key, Method::GET, &path, None, 200)
            .await;
        assert_eq!(page["items"], json!([]), "all steps are hidden");
        last = page["next"].as_str().unwrap().parse().unwrap();
        ends.push(newest - last);
    }
    assert_eq!(ends, [3, 1, 0]);
}
