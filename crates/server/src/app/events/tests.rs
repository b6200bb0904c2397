use elevo_catalog::{KeyLimits, SqliteOptions, TenantLimits};
use serde_json::json;
use tokio::task::JoinSet;

use super::*;
use crate::app::access::principal::AskedFor;
use crate::{Config, Server};

const KEY: &str = "test-key-0123456789-0123456789-0123456789";

async fn post(url: &str, body: Value) -> Value {
    crate::platform::outgoing::choose_cryptography();
    let request = reqwest::Client::new().post(url).bearer_auth(KEY);
    let answer = request.json(&body).send().await.unwrap();
    answer.error_for_status().unwrap().json().await.unwrap()
}

/// A server in this process, and a key of its tenant.
struct Running {
    server: Server,
    who: Principal,
    _directory: tempfile::TempDir,
}

impl Running {
    async fn start(change: impl FnOnce(&mut Config)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let settings = [
            ("DATA_DIR", data.to_str().unwrap()),
            ("API_PORT", "0"),
            ("METRICS_PORT", "0"),
            ("API_KEY", KEY),
            ("DOCKER_HOST", "unix:///nonexistent/docker.sock"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut config = Config::read(None, settings).unwrap();
        change(&mut config);
        let server = Server::start(config).await.unwrap();
        let app = server.app();
        let tenant = app.first_tenant().await.unwrap();
        let who = Principal {
            tenant,
            agent: None,
            key: "key-1".parse().unwrap(),
            key_name: "key".into(),
            scopes: vec![Scope::ProjectsRead],
            limits: KeyLimits::default(),
            tenant_limits: Arc::new(TenantLimits::default()),
            asked: AskedFor::default(),
            _presence: app.tenants.enter(tenant),
        };
        Self {
            server,
            who,
            _directory: directory,
        }
    }

    /// Lands a change in a project, which records an event.
    async fn land(&self, project: &str) {
        let address = self.server.addresses().api;
        let url = format!("http://{address}/api/v1/projects/{project}/apply");
        let content = clock::name("");
        post(&url, json!({"files": [{"path": "a", "content": content}]})).await;
    }

    async fn project(&self) -> String {
        let url = format!("http://{}/api/v1/projects", self.server.addresses().api);
        let made = post(&url, json!({"name": "site"})).await;
        made["id"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_leave_readers_of_the_catalog_to_others() {
    assert!(READERS < SqliteOptions::default().readers as usize);
    let running = Running::start(|_| {}).await;
    let app = running.server.app();
    // The test holds all permits, so no follower can read from the catalog.
    let turns = app
        .events
        .following
        .acquire_many(READERS as u32)
        .await
        .unwrap();
    let mut followers = JoinSet::new();
    for _ in 0..100 {
        let query = EventsQuery::default();
        let mut following = app.events.follow(&running.who, &query).await.unwrap();
        followers.spawn(async move { following.next().await.unwrap() });
    }
    let project = running.project().await;
    running.land(&project).await;
    // Requests are served meanwhile, and see the event.
    for _ in 0..100 {
        let page = app
            .events
            .list(&running.who, &EventsQuery::default())
            .await
            .unwrap();
        assert_eq!(page.items.len(), 1);
    }
    assert!(followers.try_join_next().is_none(), "a follower has read");
    drop(turns);
    for followed in followers.join_all().await {
        assert!(matches!(followed, Followed::Events(events) if events.len() == 1));
    }
    running.server.stop().await;
}

/// Requests events; returns the response.
async fn get(running: &Running, query: &str, accept: &str) -> reqwest::Response {
    let address = running.server.addresses().api;
    let url = format!("http://{address}/api/v1/events?{query}");
    crate::platform::outgoing::choose_cryptography();
    let request = reqwest::Client::new().get(url).bearer_auth(KEY);
    let answer = request.header("accept", accept).send().await.unwrap();
    answer.error_for_status().unwrap()
}

/// Returns the first `count` items of a stream, as text.
async fn first_items(mut answer: reqwest::Response, count: usize) -> String {
    let mut text = String::new();
    while text.matches("data:").count() < count || !text.ends_with("\n\n") {
        let piece = answer.chunk().await.unwrap().expect("a stream");
        text += std::str::from_utf8(&piece).unwrap();
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_is_reported_and_not_skipped() {
    let running = Running::start(|config| config.events_keep = Duration::ZERO).await;
    let events = &running.server.app().events;
    let project = running.project().await;
    let page = async |cursor: Option<u64>| {
        let query = EventsQuery {
            cursor,
            ..EventsQuery::default()
        };
        events.list(&running.who, &query).await.unwrap()
    };
    running.land(&project).await;
    running.land(&project).await;
    let first = page(None).await;
    let [one, two] = [first.items[0].id, first.items[1].id];
    assert_eq!((first.next, first.gap), (two.to_string(), None));
    assert_eq!(page(Some(0)).await.gap, None, "all are there");

    events.delete_old().await.unwrap();
    let gap = Some(api::EventGap { oldest: two + 1 });
    let after = page(Some(one)).await;
    assert_eq!((after.items.len(), after.gap), (0, gap));
    assert_eq!(page(Some(two)).await.gap, None, "the client had them all");
    let fresh = page(None).await;
    assert_eq!((fresh.next, fresh.gap), (two.to_string(), None));

    running.land(&project).await;
    let after = page(Some(one)).await;
    let three = after.items[0].id;
    assert_eq!((after.items.len(), after.gap), (1, gap));
    // The query takes precedence over the header.
    let json = get(&running, &format!("cursor={one}"), "application/json").await;
    let json: Value = json.json().await.unwrap();
    assert_eq!(json["gap"], json!({"oldest": two + 1}), "{json}");
    let stream = get(&running, &format!("cursor={one}"), "text/event-stream").await;
    let text = first_items(stream, 2).await;
    let expected = format!(
        "event: gap\ndata: {{\"oldest\":{}}}\n\nid: {three}\n",
        two + 1
    );
    assert!(text.contains(&expected), "{text}");
    let stream = get(&running, &format!("cursor={two}"), "text/event-stream").await;
    let text = first_items(stream, 1).await;
    assert!(!text.contains("event: gap"), "{text}");

    // A stream that is behind when events are deleted reports it as well.
    let query = EventsQuery {
        cursor: Some(two),
        ..EventsQuery::default()
    };
    let mut following = events.follow(&running.who, &query).await.unwrap();
    events.delete_old().await.unwrap();
    let expected = api::EventGap { oldest: three + 1 };
    let followed = following.next().await.unwrap();
    assert!(matches!(followed, Followed::Gap(gap) if gap == expected));
    running.land(&project).await;
    let followed = following.next().await.unwrap();
    assert!(matches!(followed, Followed::Events(events) if events[0].id > three));
    drop(following);
    running.server.stop().await;
}
