//! The rules of collections, each of which can be taken out of the functions of the
//! database or of this process.

use std::sync::atomic::{AtomicBool, Ordering};

use elevo_testkit::postgres::Database;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Whether the guards forget the snapshots that are not held any more.
static FORGETS: AtomicBool = AtomicBool::new(false);

/// Whether the rule of memory is taken out.
pub(crate) fn forgets() -> bool {
    FORGETS.load(Ordering::Relaxed)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Commits and lookups during a collection raise `seen`.
    Seen,
    /// A collection waits for the sessions of earlier writers.
    Sessions,
    /// A collection begins when no commit is between its look at the phase and its
    /// end.
    Lock,
    /// Condemned snapshots that are held stay.
    Vetoes,
    /// A collection waits until every node has heard of it.
    Opening,
    /// Nodes veto what was held at any time since the opening.
    Memory,
}

/// Pauses that make the moments longer in which a rule matters.
const PAUSES: [(&str, &str, &str); 4] = [
    (
        "commit_1",
        "    -- Waits for an earlier call",
        "    IF random() < PART THEN PERFORM pg_sleep(PAUSE * random()); END IF;\n    -- Waits for an earlier call",
    ),
    (
        "call_1",
        "BEGIN\n",
        "BEGIN\n    IF NOT p_opens THEN PERFORM pg_sleep(0.1); END IF;\n",
    ),
    ("sweep_1", "BEGIN\n", "BEGIN\n    PERFORM pg_sleep(0.05);\n"),
    (
        "find_1",
        "BEGIN\n",
        "BEGIN\n    IF random() < 0.1 THEN PERFORM pg_sleep(0.05); END IF;\n",
    ),
];

impl Rule {
    /// The function with the rule, a text in it, and the text without the rule.
    fn edits(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::Seen => &[
                ("add_objects_1", "IF p_phase = 'i' THEN", "IF true THEN"),
                ("find_1", "IF state.phase <> 'i' THEN", "IF false THEN"),
            ],
            Self::Sessions => &[(
                "begin_session_1",
                "p_node, state.number)",
                "p_node, state.number + 1000000)",
            )],
            Self::Lock => &[(
                "enter_1",
                "pg_advisory_xact_lock_shared(11, p_tenant), ",
                "",
            )],
            Self::Vetoes => &[],
            Self::Opening => &[(
                "silent_1",
                "RETURN (SELECT",
                "RETURN (SELECT CASE WHEN (SELECT opens FROM store.rounds WHERE seq = p_seq) THEN 0 ELSE 1 END *",
            )],
            Self::Memory => &[],
        }
    }
}

async fn edit(connection: &mut PgConnection, function: &str, from: &str, to: &str) {
    let definition: String =
        sqlx::query_scalar("SELECT pg_get_functiondef(('store.' || $1)::regproc)")
            .bind(function)
            .fetch_one(&mut *connection)
            .await
            .unwrap();
    assert!(definition.contains(from), "{function} has no `{from}`");
    run(connection, definition.replacen(from, to, 1)).await;
}

async fn run(connection: &mut PgConnection, statement: String) {
    let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection);
    done.await.unwrap();
}

/// Adds the pauses, and takes out a rule.
pub(super) async fn prepare(database: &Database, without: Option<Rule>) {
    let mut connection = PgConnection::connect(&database.url()).await.unwrap();
    let edits = without.map_or(&[][..], Rule::edits);
    for (function, from, to) in PAUSES.iter().chain(edits) {
        // Without the lock, a collection does not wait for the commits of the third
        // store whose connections were cut. It waits for those of the others.
        let (part, pause) = match without {
            Some(Rule::Lock) => ("0.8 * (p_node = 3)::int4", "1.5"),
            _ => ("0.2", "0.3"),
        };
        let to = to.replace("PART", part).replace("PAUSE", pause);
        edit(&mut connection, function, from, &to).await;
    }
    if without == Some(Rule::Vetoes) {
        let ignore = "CREATE FUNCTION store.ignore() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RETURN CASE WHEN (SELECT opens FROM store.rounds WHERE seq = NEW.seq) THEN NEW END; \
             END $$; CREATE TRIGGER ignore BEFORE INSERT ON store.vetoes FOR EACH ROW \
             EXECUTE FUNCTION store.ignore()";
        run(&mut connection, ignore.into()).await;
    }
    FORGETS.store(without == Some(Rule::Memory), Ordering::Relaxed);
}
