//! Tests that frequent statements read only the rows they need.
//!
//! Every statement here is the one that the catalog executes: a constant, or a
//! query that its function has built.

use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_objects::{Hash, SnapshotId};
use sqlx::Row;

use super::super::SqliteCatalog;
use super::{Temporary, id_of};
use crate::conformance::Backend;
use crate::nodes::NodeId;
use crate::query::{Position, SandboxQuery};
use crate::records::{
    EventQuery, ProjectQuery, ReviewQuery, ReviewState, SnapshotQuery, WorkspaceQuery,
};

/// Returns the query plan of a statement, one step per line.
async fn plan(catalog: &SqliteCatalog, statement: &str) -> String {
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let rows = sqlx::query(explain).fetch_all(catalog.database.readers());
    let rows = rows.await.unwrap();
    let steps: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
    steps.join("\n")
}

async fn assert_plans(statements: &[(&str, &[&str])]) {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    for (statement, parts) in statements {
        // A scan of `found` is allowed: the `WITH found` has only the rows of
        // one page.
        let plan = plan(&catalog, statement).await.replace("SCAN found", "");
        for part in *parts {
            assert!(plan.contains(part), "{statement}:\n{plan}");
        }
        for bad in ["TEMP B-TREE FOR ORDER", "TEMP B-TREE FOR LAST", "SCAN"] {
            // A list without a filter may scan: it reads an index in its order
            // and stops at its limit.
            let is_list = statement.contains("WHERE 1 = 1") && bad == "SCAN";
            assert!(is_list || !plan.contains(bad), "{statement}:\n{plan}");
        }
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
async fn no_statement_reads_a_whole_table_or_sorts_it() {
    use super::super::commands::SELECT;
    use super::super::keys::{SELECT_ACCESS, SELECT_BY_HASH};
    use super::super::leases::{CHECK, RELEASE};
    use super::super::nodes::{NAME_FIRST, RENEW};
    use super::super::requests::{DELETE_OLD, RELEASE_ALL_BUT, RELEASE_OF};
    use super::super::sandboxes::{
        COUNT_ALL, COUNT_OF_KEY, DELETE_METADATA, SELECT_BY_NAME, SELECT_EXPIRED, count_by_state,
        select_page,
    };
    use super::super::workspaces::SELECT_BY_NAME as SELECT_WORKSPACES_BY_NAME;
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    let of_tenant = SandboxQuery {
        tenant: Some(TenantId::LOCAL),
        after: Some(position()),
        ..SandboxQuery::default()
    };
    let list = select_page(&of_tenant).unwrap().into_sql();
    let list_all = select_page(&SandboxQuery::default()).unwrap().into_sql();
    let of_node = SandboxQuery {
        node: Some(NodeId::FIRST),
        ..SandboxQuery::default()
    };
    let of_node = select_page(&of_node).unwrap().into_sql();
    let counts = count_by_state(Some(TenantId::LOCAL)).into_sql();
    for (statement, index) in [
        (list.as_str(), "sandboxes_by_tenant (tenant=? AND"),
        (list_all.as_str(), "sandboxes_by_age"),
        (of_node.as_str(), "sandboxes_by_node (node=?)"),
        (COUNT_OF_KEY, "sandboxes_by_key (tenant=? AND api_key=?)"),
        (COUNT_ALL, "COVERING INDEX sandboxes_by_"),
        (SELECT_EXPIRED, "sandboxes_by_expiry (node=? AND expires<?)"),
        (
            counts.as_str(),
            "COVERING INDEX sandboxes_by_state (tenant=?)",
        ),
        (DELETE_METADATA, "sandbox_metadata_by_sandbox (sandbox=?)"),
        (SELECT, "commands USING PRIMARY KEY (sandbox=? AND id=?)"),
        (SELECT_BY_HASH, "(hash=?)"),
        (SELECT_ACCESS, "own USING"),
        (SELECT_ACCESS, "owner USING "),
        (SELECT_ACCESS, "sandboxes USING "),
        (SELECT_BY_NAME, "sandboxes_by_name (tenant=? AND name=?)"),
        (
            SELECT_WORKSPACES_BY_NAME,
            "workspaces_by_name (tenant=? AND name=?)",
        ),
        (DELETE_OLD, "requests_by_age (keep_until<?)"),
        (RELEASE_ALL_BUT, "requests_at_work (process>?)"),
        (RELEASE_OF, "requests_at_work (process=?)"),
        (CHECK, "leases USING PRIMARY KEY (name=?)"),
        (RELEASE, "leases USING PRIMARY KEY (name=?)"),
        (NAME_FIRST, "nodes USING INTEGER PRIMARY KEY (rowid=?)"),
        (RENEW, "nodes_by_session (session=?)"),
    ] {
        let plan = plan(&catalog, statement).await;
        assert!(plan.contains(index), "{statement}:\n{plan}");
        assert!(
            !plan.contains("TEMP B-TREE FOR ORDER"),
            "{statement}:\n{plan}"
        );
    }
}

#[tokio::test]
async fn sandboxes_with_metadata_are_found_by_an_index() {
    use super::super::sandboxes::select_page;
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    let query = SandboxQuery {
        tenant: Some(TenantId::LOCAL),
        metadata: [("key".into(), "value".into())].into(),
        ..SandboxQuery::default()
    };
    let plan = plan(&catalog, select_page(&query).unwrap().into_sql().as_str()).await;
    let part = "sandbox_metadata USING PRIMARY KEY (tenant=? AND key=? AND value=?)";
    assert!(plan.contains(part), "{plan}");
    assert!(!plan.contains("SCAN"), "{plan}");
}

#[tokio::test]
async fn landings_are_found_by_an_index() {
    use super::super::landings::{SELECT_BY_REQUEST, SELECT_BY_SNAPSHOT, SELECT_PAGE};
    use super::super::versions::{SELECT_BELOW, SELECT_IN};
    assert_plans(&[
        (SELECT_PAGE, &["PRIMARY KEY (project=? AND sequence<?)"]),
        (
            SELECT_BY_SNAPSHOT,
            &["landings_by_snapshot (project=? AND snapshot=?)"],
        ),
        (
            SELECT_BY_REQUEST,
            &[
                "landings_by_request (project=? AND request=?)",
                "held_requests USING PRIMARY KEY (project=? AND request=?)",
            ],
        ),
        (
            SELECT_IN,
            &[
                "versions USING PRIMARY KEY (project=? AND sequence=? AND path>?)",
                "landings USING PRIMARY KEY (project=? AND sequence=?)",
            ],
        ),
        (
            SELECT_BELOW,
            &[
                "landings USING PRIMARY KEY (project=? AND sequence<?)",
                "versions USING PRIMARY KEY (project=? AND sequence=? AND path>?)",
            ],
        ),
    ])
    .await;
}

/// The statement may sort the few rows that it found; the test checks which rows
/// it reads.
#[tokio::test]
async fn a_history_reads_each_directory_above_once() {
    use super::super::versions::select_of;
    use crate::stored;
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    let path = TreePath::new("a/b/c").unwrap();
    let select = select_of(
        &stored::path_and_above(&path),
        TenantId::LOCAL,
        &id_of("prj-1"),
        Some(7),
        10,
    );
    let plan = plan(&catalog, select.sql().as_str()).await;
    for part in [
        "one USING COVERING INDEX versions_by_path (project=? AND path=? AND sequence=?)",
        "other USING INDEX versions_by_path (project=? AND path=? AND sequence<?)",
        "versions USING PRIMARY KEY (project=? AND sequence=? AND path=?)",
        "landings USING PRIMARY KEY (project=? AND sequence=?)",
    ] {
        assert!(plan.contains(part), "{plan}");
    }
    let scans: Vec<_> = plan.lines().filter(|step| step.contains("SCAN")).collect();
    let small = |step: &&str| {
        ["asked", "found", "own", "CONSTANT"]
            .iter()
            .any(|it| step.contains(it))
    };
    assert!(scans.iter().all(small), "{plan}");
}

#[tokio::test]
async fn lists_of_projects_and_their_records_are_in_the_order_of_an_index() {
    use super::super::reviews::{SELECT_EXPIRED, SELECT_OPEN_OF};
    use super::super::{projects, workspaces};
    let tenant = Some(TenantId::LOCAL);
    let after = Some(position());
    let projects_of = |tenant, after| {
        let query = ProjectQuery {
            tenant,
            after,
            ..ProjectQuery::default()
        };
        projects::select_page(&query).unwrap().into_sql()
    };
    let workspaces_of = |query: WorkspaceQuery| {
        let select = workspaces::select_page(&query).unwrap();
        select.into_sql()
    };
    let of_tenant = WorkspaceQuery {
        tenant,
        after: after.clone(),
        ..WorkspaceQuery::default()
    };
    let of_project = WorkspaceQuery {
        project: Some(id_of("prj-1")),
        ..of_tenant.clone()
    };
    let of_agent = WorkspaceQuery {
        agent: Some(id_of("agt-1")),
        ..of_tenant.clone()
    };
    assert_plans(&[
        (
            projects_of(tenant, after).as_str(),
            &["projects_by_tenant (tenant=? AND"],
        ),
        (projects_of(None, None).as_str(), &["projects_by_age"]),
        (
            workspaces_of(of_tenant).as_str(),
            &["workspaces_by_tenant (tenant=? AND"],
        ),
        (
            workspaces_of(of_project).as_str(),
            &["workspaces_by_project (tenant=? AND project=?"],
        ),
        (
            workspaces_of(of_agent).as_str(),
            &["workspaces_by_agent (tenant=? AND agent=?"],
        ),
        (
            workspaces_of(WorkspaceQuery::default()).as_str(),
            &["workspaces_by_age"],
        ),
        (
            SELECT_OPEN_OF,
            &["reviews_open_of_workspace (workspace=? AND path>?)"],
        ),
        (SELECT_EXPIRED, &["reviews_by_expiry (expires<?)"]),
        (
            super::super::workspaces::SELECT_EXPIRED,
            &["workspaces_by_expiry (node=? AND expires<?)"],
        ),
        (
            super::super::sandboxes::SELECT_BY_WORKSPACE,
            &["sandboxes_by_workspace (tenant=? AND workspace=?)"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn reviews_are_listed_in_the_order_of_the_best_index() {
    use super::super::reviews::select_page;
    let all = ReviewQuery {
        after: Some(position()),
        ..ReviewQuery::of(TenantId::LOCAL)
    };
    let project = Some(id_of("prj-1"));
    let workspace = Some(id_of("w"));
    let open = Some(ReviewState::Open);
    for (project, workspace, state, index) in [
        (None, None, None, "reviews_by_tenant (tenant=? AND ("),
        (None, None, open, "reviews_open (tenant=? AND ("),
        (
            project.clone(),
            None,
            None,
            "reviews_by_project (tenant=? AND project=? AND (",
        ),
        (
            project.clone(),
            None,
            open,
            "reviews_open_of_project (tenant=? AND project=? AND (",
        ),
        (
            project,
            workspace,
            open,
            "reviews_by_workspace (workspace=? AND (",
        ),
    ] {
        let query = ReviewQuery {
            project,
            workspace,
            state,
            ..all.clone()
        };
        let select = select_page(&query).unwrap();
        assert_plans(&[(select.sql().as_str(), &[index])]).await;
    }
}

#[tokio::test]
async fn a_walk_over_all_snapshots_continues_at_its_position() {
    use super::super::roots::{
        SELECT_HEADS, SELECT_LANDINGS, SELECT_MORE_LANDINGS, SELECT_MORE_TAGS, SELECT_NAMED,
        SELECT_REVIEWS, SELECT_TAGS, SELECT_WORKSPACES,
    };
    assert_plans(&[
        (SELECT_HEADS, &["(tenant=? AND id>?)"]),
        (
            SELECT_LANDINGS,
            &["landings USING PRIMARY KEY (project=? AND sequence>?)"],
        ),
        (
            SELECT_MORE_LANDINGS,
            &[
                "(tenant=? AND id>?)",
                "landings USING PRIMARY KEY (project=?)",
            ],
        ),
        (
            SELECT_TAGS,
            &["tags USING PRIMARY KEY (project=? AND name>?)"],
        ),
        (
            SELECT_MORE_TAGS,
            &["(tenant=? AND id>?)", "tags USING PRIMARY KEY (project=?)"],
        ),
        (SELECT_WORKSPACES, &["workspaces_by_id (tenant=? AND id>?)"]),
        (SELECT_REVIEWS, &["reviews_open_by_id (tenant=? AND id>?)"]),
        (SELECT_NAMED, &["snapshots_by_name (tenant=? AND name>?)"]),
    ])
    .await;
}

#[tokio::test]
async fn snapshots_are_found_by_an_index() {
    use super::super::snapshots::{SELECT_BY_NAME, SELECT_ONE, SELECT_UNNAMED, select_page};
    let all = SnapshotQuery {
        after: Some((
            Timestamp::new(1, 0).unwrap(),
            SnapshotId(Hash::from_bytes([1; 32])),
        )),
        ..SnapshotQuery::of(TenantId::LOCAL)
    };
    let of_agent = SnapshotQuery {
        agent: Some(id_of("agt-1")),
        ..all.clone()
    };
    let of_workspace = SnapshotQuery {
        workspace: Some(id_of("ws-1")),
        ..all.clone()
    };
    let [all, of_agent, of_workspace] =
        [all, of_agent, of_workspace].map(|query| select_page(&query).unwrap().into_sql());
    assert_plans(&[
        (SELECT_ONE, &["PRIMARY KEY (tenant=? AND id=?)"]),
        (SELECT_BY_NAME, &["snapshots_by_name (tenant=? AND name=?)"]),
        (SELECT_UNNAMED, &["PRIMARY KEY (tenant=? AND id>?)"]),
        (all.as_str(), &["snapshots_by_age (tenant=? AND"]),
        (
            of_agent.as_str(),
            &["snapshots_by_agent (tenant=? AND agent=? AND"],
        ),
        (
            of_workspace.as_str(),
            &["snapshots_by_workspace (tenant=? AND workspace=? AND"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn dropped_versions_are_found_by_an_index() {
    use super::super::retention::{
        SELECT_DROPPED, SELECT_DROPPED_FROM, SELECT_NEEDED, SELECT_REPLACED,
    };
    assert_plans(&[
        (
            SELECT_REPLACED,
            &[
                "landings USING PRIMARY KEY (project=? AND sequence>?)",
                "gone USING PRIMARY KEY (project=? AND snapshot=?)",
                "later USING COVERING INDEX landings_by_snapshot (project=? AND snapshot=? AND sequence>?)",
                "own USING PRIMARY KEY (project=? AND sequence=?)",
            ],
        ),
        (
            SELECT_NEEDED,
            &[
                "workspaces_by_project (tenant=? AND project=?)",
                "reviews_open_of_project (tenant=? AND project=?)",
            ],
        ),
        (
            super::super::tags::SELECT_PAGE,
            &["tags USING PRIMARY KEY (project=? AND name>?)"],
        ),
        (SELECT_DROPPED, &["(project=? AND snapshot=?)"]),
        (
            SELECT_DROPPED_FROM,
            &["dropped_versions_by_snapshot (snapshot=?)"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn events_and_deliveries_are_found_by_an_index() {
    use super::super::deliveries::SELECT_PENDING;
    use super::super::events::{SELECT_FORGOTTEN, SELECT_OLD, UPDATE_FORGOTTEN, select_page};
    use super::super::webhooks::{FORGET_PREVIOUS, SELECT_OF_OWNER};
    let of_tenant = EventQuery {
        tenant: Some(TenantId::LOCAL),
        ..EventQuery::default()
    };
    assert_plans(&[
        (
            select_page(&of_tenant).into_sql().as_str(),
            &["events_by_tenant (tenant=? AND id>?)"],
        ),
        (
            select_page(&EventQuery::default()).into_sql().as_str(),
            &["events USING INTEGER PRIMARY KEY (rowid>?)"],
        ),
        (
            SELECT_OLD,
            &[
                "events_by_time (at<?)",
                "webhooks_by_tenant (tenant=?)",
                "deliveries_by_event (event=?)",
            ],
        ),
        (SELECT_PENDING, &["deliveries_pending (webhook=?)"]),
        (SELECT_OF_OWNER, &["webhooks_by_tenant (tenant=?)"]),
        (FORGET_PREVIOUS, &["webhooks_previous (previous_until<?)"]),
        (SELECT_FORGOTTEN, &["sqlite_autoindex_tenants_1 (id=?)"]),
        (UPDATE_FORGOTTEN, &["sqlite_autoindex_tenants_1 (id=?)"]),
    ])
    .await;
}

#[tokio::test]
async fn a_project_is_removed_without_reading_others() {
    use super::super::projects::DELETE;
    for statement in DELETE {
        assert_plans(&[(statement, &["project=?"])]).await;
    }
}

#[tokio::test]
async fn a_tenant_is_erased_without_reading_others() {
    use super::super::tenants::{DELETE, DELETE_EVENTS, DELETE_UNSETTLED};
    let own = ["tenant=?"].as_slice();
    for statement in DELETE.iter().chain(&DELETE_EVENTS) {
        assert_plans(&[(statement, own)]).await;
    }
    assert_plans(&[(DELETE_UNSETTLED, own)]).await;
}
