//! Tests that frequent statements can read only the rows they need.
//!
//! The tables are empty, so the planner would read them whole. The tests forbid
//! that, and sorting, where another plan exists: a statement without an index
//! for its conditions and its order still does it. The plans are those for any
//! values, as prepared statements get them. A name that ends in `_` stands for
//! several suitable indexes: the data decides which one is the best.

use elevo_core::{TenantId, Timestamp};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use super::Temporary;
use crate::conformance::Backend;
use crate::postgres::{
    commands, deliveries, events, keys, landings, leases, projects, requests, retention, reviews,
    roots, sandboxes, snapshots, tags, versions, workspaces,
};
use crate::query::{Position, SandboxQuery};
use crate::records::{
    EventQuery, ProjectQuery, ReviewQuery, ReviewState, SnapshotQuery, WorkspaceQuery,
};

struct Planner {
    connection: PgConnection,
    /// Deleted last.
    _temporary: Temporary,
}

impl Planner {
    async fn open() -> Self {
        let temporary = Temporary::new();
        temporary.open().await.close().await;
        let mut connection = PgConnection::connect(&temporary.0.url()).await.unwrap();
        let settings = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
                        SET enable_bitmapscan = off; SET enable_sort = off";
        let set = sqlx::raw_sql(settings).execute(&mut connection).await;
        set.unwrap();
        Self {
            connection,
            _temporary: temporary,
        }
    }

    /// Returns the query plan of a statement, one step per line.
    async fn plan(&mut self, statement: &str) -> String {
        let parameters = (1..).take_while(|n| statement.contains(&format!("${n}")));
        let nulls = vec!["NULL"; parameters.count()].join(", ");
        let arguments = match nulls.as_str() {
            "" => String::new(),
            nulls => format!("({nulls})"),
        };
        self.run(format!("PREPARE planned AS {statement}")).await;
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE planned{arguments}");
        let explained = sqlx::raw_sql(AssertSqlSafe(explain));
        let rows = explained.fetch_all(&mut self.connection).await.unwrap();
        self.run("DEALLOCATE planned".to_owned()).await;
        let steps: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        steps.join("\n")
    }

    async fn run(&mut self, statement: String) {
        let ran = sqlx::raw_sql(AssertSqlSafe(statement.clone()));
        let ran = ran.execute(&mut self.connection).await;
        ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// Checks that a statement uses an index and reads no whole table.
    async fn assert_uses(&mut self, statement: &str, index: &str) {
        let plan = self.plan(statement).await;
        assert!(plan.contains(index), "{statement}:\n{plan}");
        assert!(!plan.contains("Seq Scan"), "{statement}:\n{plan}");
    }

    /// Checks the same, and that the index has the order of the list.
    async fn assert_ordered_by(&mut self, statement: &str, index: &str) {
        self.assert_uses(statement, index).await;
        let plan = self.plan(statement).await;
        assert!(!plan.contains("Sort"), "{statement}:\n{plan}");
    }
}

/// The position that a page continues after.
fn position() -> Position {
    Position {
        created: Timestamp::new(1, 0).unwrap(),
        id: "x".into(),
    }
}

#[tokio::test]
async fn single_records_are_found_by_an_index() {
    let mut planner = Planner::open().await;
    for (statement, index) in [
        (keys::SELECT_BY_HASH, "api_keys_hash_key"),
        (keys::SELECT_ACCESS, "api_keys_hash_key"),
        (keys::SELECT_ACCESS, "tenants_pkey"),
        (keys::SELECT_ACCESS, "sandboxes_pkey"),
        (commands::SELECT, "commands_pkey"),
        (sandboxes::SELECT_BY_NAME, "sandboxes_by_name"),
        (sandboxes::SELECT_BY_WORKSPACE, "sandboxes_by_workspace"),
        (sandboxes::COUNT_OF_KEY, "sandboxes_by_key"),
        (sandboxes::DELETE_METADATA, "sandbox_metadata_by_sandbox"),
        (workspaces::SELECT_BY_NAME, "workspaces_by_name"),
        (snapshots::SELECT_BY_NAME, "snapshots_by_name"),
        (tags::SELECT_ONE, "tags_pkey"),
        (landings::SELECT_BY_SNAPSHOT, "landings_by_snapshot"),
        (landings::SELECT_BY_REQUEST, "landings_by_request"),
        (landings::SELECT_BY_REQUEST, "held_requests_pkey"),
        (retention::SELECT_DROPPED, "dropped_versions_pkey"),
        (retention::SELECT_DROPPED_FROM, "dropped_versions_"),
        (retention::SELECT_NEEDED, "reviews_"),
        (requests::RELEASE_OF, "requests_at_work"),
        (requests::DELETE_OLD, "requests_by_age"),
        (events::SELECT_FORGOTTEN, "tenants_pkey"),
        (events::SELECT_OLD, "events_by_time"),
        (leases::RELEASE, "leases_pkey"),
        (leases::CHECK, "leases_pkey"),
        (versions::SELECT_BELOW, "versions_pkey"),
    ] {
        planner.assert_uses(statement, index).await;
    }
}

#[tokio::test]
async fn lists_are_in_the_order_of_an_index() {
    let mut planner = Planner::open().await;
    for (statement, index) in [
        (sandboxes::SELECT_EXPIRED, "sandboxes_by_expiry"),
        (workspaces::SELECT_EXPIRED, "workspaces_by_expiry"),
        (reviews::SELECT_EXPIRED, "reviews_by_expiry"),
        (reviews::SELECT_OPEN_OF, "reviews_open_of_workspace"),
        (landings::SELECT_PAGE, "landings_pkey"),
        (versions::SELECT_IN, "versions_"),
        (tags::SELECT_PAGE, "tags_pkey"),
        (snapshots::SELECT_UNNAMED, "snapshots_pkey"),
        (deliveries::SELECT_PENDING, "deliveries_"),
        (roots::SELECT_HEADS, "projects_"),
        (roots::SELECT_LANDINGS, "landings_pkey"),
        (roots::SELECT_TAGS, "tags_pkey"),
        (roots::SELECT_WORKSPACES, "workspaces_by_id"),
        (roots::SELECT_REVIEWS, "reviews_open_by_id"),
        (roots::SELECT_NAMED, "snapshots_by_name"),
    ] {
        planner.assert_ordered_by(statement, index).await;
    }
}

#[tokio::test]
async fn pages_are_in_the_order_of_an_index() {
    let mut planner = Planner::open().await;
    let tenant = Some(TenantId::LOCAL);
    let after = Some(position());
    let of_tenant = SandboxQuery {
        tenant,
        after: after.clone(),
        ..SandboxQuery::default()
    };
    let sandboxes_of = |query| sandboxes::select_page(&query).unwrap().into_sql();
    let workspaces_of = |query| workspaces::select_page(&query).unwrap().into_sql();
    let projects_of = |query| projects::select_page(&query).unwrap().into_sql();
    let reviews_of = |query| reviews::select_page(&query).unwrap().into_sql();
    let open = ReviewQuery {
        state: Some(ReviewState::Open),
        ..ReviewQuery::of(TenantId::LOCAL)
    };
    let pages = [
        (sandboxes_of(of_tenant), "sandboxes_by_tenant"),
        (sandboxes_of(SandboxQuery::default()), "sandboxes_by_age"),
        (
            workspaces_of(WorkspaceQuery {
                tenant,
                after: after.clone(),
                ..WorkspaceQuery::default()
            }),
            "workspaces_by_tenant",
        ),
        (
            projects_of(ProjectQuery {
                tenant,
                after,
                ..ProjectQuery::default()
            }),
            "projects_by_tenant",
        ),
        (
            reviews_of(ReviewQuery::of(TenantId::LOCAL)),
            "reviews_by_tenant",
        ),
        (reviews_of(open), "reviews_open"),
        (
            snapshots::select_page(&SnapshotQuery::of(TenantId::LOCAL))
                .unwrap()
                .into_sql(),
            "snapshots_by_age",
        ),
        (
            events::select_page(&EventQuery {
                tenant,
                limit: 10,
                ..EventQuery::default()
            })
            .into_sql(),
            "events_by_tenant",
        ),
    ];
    for (statement, index) in pages {
        planner.assert_ordered_by(statement.as_str(), index).await;
    }
}
