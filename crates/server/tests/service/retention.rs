//! Versions of projects lose their content as retention requires, and not
//! otherwise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Service, eventually};
use crate::shared::{Ws, agent, at, file, merge, read, workspace, write};

/// Starts a server that keeps no unnamed snapshot because of its age.
async fn service() -> Service {
    Service::start_here(|config| config.garbage.keep_unnamed = Duration::ZERO).await
}

async fn project(service: &Service, name: &str, retention: Value) -> String {
    let wish = json!({"name": name, "retention": retention});
    let made = service
        .expect(Method::POST, "/api/v1/projects", Some(wish), 201)
        .await;
    assert_eq!(made["retention"], retention);
    made["id"].as_str().unwrap().to_owned()
}

/// Lands versions 1, 2 and so on, each with its number in `a.txt`; returns their
/// snapshots, after that of the new project.
async fn versions(service: &Service, project: &str, count: usize) -> Vec<String> {
    let found = service.get(&format!("/api/v1/projects/{project}")).await;
    let mut snapshots = vec![found["head"].as_str().unwrap().to_owned()];
    for version in 1..=count {
        let files = json!([
            {"path": "a.txt", "content": text(version)},
            {"path": format!("of-{version}"), "content": "x".repeat(100_000 + version)},
        ]);
        let url = format!("/api/v1/projects/{project}/apply");
        let wish = Some(json!({"files": files}));
        let landed = service.expect(Method::POST, &url, wish, 200).await;
        snapshots.push(landed["head"].as_str().unwrap().to_owned());
    }
    snapshots
}

fn text(version: usize) -> String {
    (1..=version).map(|n| format!("line {n}\n")).collect()
}

/// Waits until everything is older than the second it was created in: retention
/// compares seconds of the machine's clock.
async fn grow_old() {
    let seconds = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs()
    };
    let now = seconds();
    eventually("the next second", async || seconds() > now).await;
}

async fn collect(service: &Service) -> Value {
    service.expect(Method::POST, "/api/v1/gc", None, 200).await
}

async fn status(service: &Service, method: Method, url: &str, body: Option<Value>) -> (u16, Value) {
    let mut request = service.request(method, url);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.bytes().await.unwrap();
    let json = serde_json::from_slice(&bytes);
    let text = || json!(String::from_utf8_lossy(&bytes));
    (status, json.unwrap_or_else(|_| text()))
}

fn assert_dropped((status, answer): (u16, Value), what: &str) {
    assert_eq!(status, 410, "{what}: {answer}");
    let error = &answer["error"];
    assert_eq!(error["name"], "VERSION_DROPPED", "{what}: {answer}");
    let words = error["remediation"].as_str().unwrap();
    assert!(words.contains("tag"), "{what}: {words}");
}

async fn file_at(service: &Service, project: &str, snapshot: &str) -> (u16, Value) {
    let url = format!("/api/v1/projects/{project}/files?path=a.txt&snapshot={snapshot}");
    status(service, Method::GET, &url, None).await
}

async fn log(service: &Service, project: &str) -> Vec<Value> {
    let url = format!("/api/v1/projects/{project}/steps?limit=100");
    let page = service.get(&url).await;
    page["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_go_as_retention_says_and_the_log_stays() {
    let service = service().await;
    let id = project(&service, "site", json!({"keep": "last", "count": 2})).await;
    let snapshots = versions(&service, &id, 6).await;
    let ws = workspace(&service, json!({"project": id, "snapshot": snapshots[2]})).await;
    grow_old().await;
    let before = log(&service, &id).await;
    let collected = collect(&service).await;
    // The collection keeps the last two versions, and the one that is the base
    // of a workspace.
    assert_eq!(collected["droppedVersions"], 4, "{collected}");
    assert!(
        collected["cleanedSnapshots"].as_u64() >= Some(4),
        "{collected}"
    );

    for (version, snapshot) in snapshots.iter().enumerate() {
        let is_kept = [2, 5, 6].contains(&version);
        let found = file_at(&service, &id, snapshot).await;
        match is_kept {
            true => assert_eq!(found, (200, json!(text(version))), "{version}"),
            false => assert_dropped(found, &format!("version {version}")),
        }
    }
    let after = log(&service, &id).await;
    for (before, after) in before.iter().zip(&after) {
        let sequence = after["number"].as_u64().unwrap();
        let is_kept = [2, 5, 6].contains(&sequence);
        assert_eq!(after["droppedAt"].is_null(), is_kept, "{after}");
        let mut same = after.clone();
        same.as_object_mut().unwrap().remove("droppedAt");
        assert_eq!(&same, before);
    }
    assert_eq!(before.len(), after.len());
    assert_refused_everywhere(&service, &id, &snapshots).await;
    assert_history_is_whole(&service, &id).await;

    assert_eq!(read(&ws, "a.txt"), text(2));
    write(&ws, "mine.txt", "mine\n");
    let merged = merge(&service, &ws).await;
    assert_eq!(merged["landedCount"], 1, "{merged}");
    let again = collect(&service).await;
    assert_eq!(again["droppedVersions"], 1, "{again}");
    let refreshed = at(&ws, "refresh");
    service.expect(Method::POST, &refreshed, None, 200).await;
    assert_eq!(read(&ws, "a.txt"), text(6));
}

/// Checks that the server rejects every request that needs the content of
/// version 3, which is dropped.
async fn assert_refused_everywhere(service: &Service, id: &str, snapshots: &[String]) {
    let (gone, next, head) = (&snapshots[3], &snapshots[4], &snapshots[6]);
    let of = |what: &str| format!("/api/v1/projects/{id}/{what}");
    for what in [
        format!("files/list?snapshot={gone}"),
        format!("files?path=a.txt&snapshot={gone}"),
        format!("blame?path=a.txt&snapshot={gone}"),
        format!("archive?snapshot={gone}"),
        format!("diff?from={gone}&to={head}"),
        format!("diff?from={head}&to={gone}&format=patch"),
        format!("diff?to={}&format=stat", snapshots[5]),
    ] {
        let found = status(service, Method::GET, &of(&what), None).await;
        assert_dropped(found, &what);
    }
    let revert = of("revert");
    let wishes = [
        (revert.clone(), json!({"snapshot": gone})),
        (revert.clone(), json!({"snapshot": gone, "path": "a.txt"})),
        (of("restore"), json!({"snapshot": gone, "path": "a.txt"})),
        // A revert also needs the version before the step, which is dropped.
        (revert, json!({"snapshot": snapshots[5]})),
        (
            of("apply"),
            json!({"base": gone, "files": [{"path": "b", "content": "b"}]}),
        ),
        (of("import"), json!({"snapshot": gone})),
        (
            "/api/v1/workspaces".into(),
            json!({"project": id, "snapshot": gone}),
        ),
        (
            "/api/v1/projects".into(),
            json!({"name": "copy", "snapshot": next}),
        ),
    ];
    for (url, wish) in wishes {
        let found = status(service, Method::POST, &url, Some(wish.clone())).await;
        assert_dropped(found, &format!("{url} {wish}"));
    }
}

/// Checks the requests that need no content, or not that of dropped versions.
async fn assert_history_is_whole(service: &Service, id: &str) {
    let of = |what: &str| format!("/api/v1/projects/{id}/{what}");
    let history = service.get(&of("history?path=a.txt")).await;
    assert_eq!(history["items"].as_array().unwrap().len(), 6);
    let step = service.get(&of("steps/3/changes")).await;
    assert_eq!(step["items"].as_array().unwrap().len(), 2);
    let blame = service.get(&of("blame?path=a.txt")).await;
    // Version 4 is dropped: lines that step 5 added cannot be distinguished from
    // older ones.
    assert_eq!(blame["knownSince"], 5, "{blame}");
    let lines = blame["lines"].as_array().unwrap();
    assert_eq!(lines.last().unwrap()["step"], 6, "{blame}");
    assert!(lines[0]["step"].is_null(), "{blame}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_keeps_more_drops_nothing_more() {
    let service = service().await;
    let id = project(&service, "site", json!({"keep": "all"})).await;
    let snapshots = versions(&service, &id, 3).await;
    grow_old().await;
    assert_eq!(collect(&service).await["droppedVersions"], 0);
    let url = format!("/api/v1/projects/{id}");
    for (wish, name) in [
        (json!({"keep": "last", "count": 0}), "INVALID_REQUEST"),
        (json!({"keep": "last"}), "INVALID_REQUEST"),
        (json!({"keep": "named", "count": 1}), "INVALID_REQUEST"),
        (json!({"keep": "some"}), "INVALID_REQUEST"),
    ] {
        let wish = Some(json!({"retention": wish}));
        let refused = service.expect(Method::PATCH, &url, wish, 400).await;
        assert_eq!(refused["error"]["name"], name, "{refused}");
    }
    let daily = json!({"keep": "daily", "days": 1});
    let wish = Some(json!({"retention": daily}));
    let changed = service.expect(Method::PATCH, &url, wish, 200).await;
    assert_eq!(changed["retention"], daily);
    // All versions were created today, and only the last of them, the head, is
    // kept.
    assert_eq!(collect(&service).await["droppedVersions"], 3);
    let wish = Some(json!({"retention": {"keep": "all"}}));
    service.expect(Method::PATCH, &url, wish, 200).await;
    assert_dropped(file_at(&service, &id, &snapshots[2]).await, "version 2");
    assert_eq!(file_at(&service, &id, &snapshots[3]).await.0, 200);
    assert_eq!(collect(&service).await["droppedVersions"], 0);
}

/// The order of seven requests for workspaces and a collection.
#[derive(Clone, Copy, Debug)]
enum Order {
    WorkspacesFirst,
    CollectionFirst,
    /// The requests one after the other, concurrently with the collection.
    OneByOne,
    /// The requests and the collection all at once.
    AtOnce,
}

/// Asks for workspaces on versions 1 to 7 and for a collection; returns the
/// responses to the former.
async fn race(
    service: &Service,
    id: &str,
    snapshots: &[String],
    order: Order,
) -> Vec<(usize, (u16, Value))> {
    let create = |version: usize| {
        let wish = json!({"project": id, "snapshot": snapshots[version]});
        async move {
            let url = "/api/v1/workspaces";
            let answer = status(service, Method::POST, url, Some(wish)).await;
            (version, answer)
        }
    };
    let one_by_one = async {
        let mut all = Vec::new();
        for version in 1..8 {
            all.push(create(version).await);
        }
        all
    };
    match order {
        Order::WorkspacesFirst => {
            let created = one_by_one.await;
            collect(service).await;
            created
        }
        Order::CollectionFirst => {
            collect(service).await;
            one_by_one.await
        }
        Order::OneByOne => tokio::join!(one_by_one, collect(service)).0,
        Order::AtOnce => {
            let at_once = futures::future::join_all((1..8).map(&create));
            tokio::join!(at_once, collect(service)).0
        }
    }
}

/// Either a workspace is created, and keeps all its files, or the request fails
/// because the version is dropped.
#[tokio::test(flavor = "multi_thread")]
async fn of_workspaces_and_collections_at_once_none_loses_files() {
    let service = service().await;
    let orders = [Order::WorkspacesFirst, Order::CollectionFirst];
    let races = [Order::OneByOne, Order::AtOnce].into_iter().cycle();
    for (round, order) in orders.into_iter().chain(races.take(6)).enumerate() {
        let id = project(&service, &format!("site-{round}"), json!({"keep": "named"})).await;
        let snapshots = versions(&service, &id, 8).await;
        grow_old().await;
        let created = race(&service, &id, &snapshots, order).await;
        collect(&service).await;
        let made = created.iter().filter(|(_, (code, _))| *code == 201).count();
        match order {
            Order::WorkspacesFirst => assert_eq!(made, 7),
            Order::CollectionFirst => assert_eq!(made, 0),
            // The race decides.
            Order::OneByOne | Order::AtOnce => {}
        }
        for (version, (code, answer)) in created {
            if code != 201 {
                assert_dropped((code, answer), &format!("version {version}"));
                continue;
            }
            let ws = Ws {
                id: answer["id"].as_str().unwrap().to_owned(),
                path: answer["path"].as_str().unwrap().into(),
            };
            assert_eq!(read(&ws, "a.txt"), text(version));
            let found = file_at(&service, &id, &snapshots[version]).await;
            assert_eq!(found, (200, json!(text(version))));
            write(&ws, &format!("mine-{version}.txt"), "mine\n");
            let merged = merge(&service, &ws).await;
            assert_eq!(merged["landedCount"], 1, "{merged}");
            assert_eq!(read(&ws, &format!("of-{version}")).len(), 100_000 + version);
        }
    }
}

async fn tag(service: &Service, project: &str, wish: Value, expected: u16) -> Value {
    let url = format!("/api/v1/projects/{project}/tags");
    service
        .expect(Method::POST, &url, Some(wish), expected)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_keeps_its_version_and_names_it() {
    let service = service().await;
    let id = project(&service, "site", json!({"keep": "last", "count": 1})).await;
    let snapshots = versions(&service, &id, 5).await;
    let url = format!("/api/v1/projects/{id}/tags");
    let wish = json!({"name": "v1", "snapshot": snapshots[1], "message": "the first"});
    let made = tag(&service, &id, wish, 201).await;
    assert_eq!((&made["name"], &made["step"]), (&json!("v1"), &json!(1)));
    assert_eq!(made["message"], "the first");
    tag(&service, &id, json!({"name": "new"}), 201).await;
    tag(
        &service,
        &id,
        json!({"name": "two", "snapshot": snapshots[2]}),
        201,
    )
    .await;
    grow_old().await;
    assert_eq!(collect(&service).await["droppedVersions"], 3);
    assert_eq!(file_at(&service, &id, "v1").await, (200, json!(text(1))));
    let ws = workspace(&service, json!({"project": id, "snapshot": "two"})).await;
    assert_eq!(read(&ws, "a.txt"), text(2));
    let diff = format!("/api/v1/projects/{id}/diff?from=v1&to=two");
    let diff = service.get(&diff).await;
    assert_eq!(diff["totals"]["added"], 1, "{diff}");

    // The tag stays, unless the request allows a move.
    let again = tag(&service, &id, json!({"name": "v1", "snapshot": "two"}), 409).await;
    assert_eq!(again["error"]["name"], "NAME_TAKEN", "{again}");
    let wish = json!({"name": "v1", "snapshot": "two", "move": true});
    assert_eq!(tag(&service, &id, wish, 201).await["step"], 2);
    for (name, snapshot, status, code) in [
        ("late", &*snapshots[3], 410, "VERSION_DROPPED"),
        ("late", "none", 404, "SNAPSHOT_NOT_FOUND"),
        ("head", "two", 400, "INVALID_REQUEST"),
        ("a/b", "two", 400, "INVALID_REQUEST"),
    ] {
        let wish = json!({"name": name, "snapshot": snapshot});
        let refused = tag(&service, &id, wish, status).await;
        assert_eq!(refused["error"]["name"], code, "{refused}");
    }
    let listed = service.get(&format!("{url}?limit=2")).await;
    let names = |page: &Value| {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|tag| tag["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&listed), ["new", "two"]);
    assert_eq!(listed["next"], "two");
    let rest = service.get(&format!("{url}?cursor=two")).await;
    assert_eq!(names(&rest), ["v1"]);

    // A version without a name is dropped by the next collection.
    assert_eq!(collect(&service).await["droppedVersions"], 1);
    assert_dropped(file_at(&service, &id, &snapshots[1]).await, "version 1");
    for name in ["v1", "two"] {
        let url = format!("{url}/{name}");
        service.expect(Method::DELETE, &url, None, 204).await;
        let gone = service.expect(Method::DELETE, &url, None, 404).await;
        assert_eq!(gone["error"]["name"], "TAG_NOT_FOUND", "{gone}");
    }
    assert_eq!(
        collect(&service).await["droppedVersions"],
        0,
        "a workspace is on it"
    );
    assert_eq!(file_at(&service, &id, &snapshots[2]).await.0, 200);
}

/// Requests a merge, a refresh, an apply and a complete, with a file `name` and
/// others.
async fn land_in_four_ways(service: &Service, project: &str, key: &str, name: &str) {
    let wish = Some(json!({"project": project}));
    let made = service.expect_as(key, Method::POST, "/api/v1/workspaces", wish, 201);
    let made = made.await;
    let ws = Ws {
        id: made["id"].as_str().unwrap().to_owned(),
        path: made["path"].as_str().unwrap().into(),
    };
    let post =
        async |url: String, body| service.expect_as(key, Method::POST, &url, body, 200).await;
    assert!(!ws.path.join("secret").exists());
    write(&ws, name, &name.repeat(1000));
    let merged = post(at(&ws, "merge"), None).await;
    assert_eq!(merged["landedCount"], 1, "{merged}");
    post(at(&ws, "refresh"), None).await;
    let files = json!([{"path": format!("a-{name}"), "content": name}]);
    let apply = format!("/api/v1/projects/{project}/apply");
    post(apply, Some(json!({"files": files}))).await;
    write(&ws, &format!("b-{name}"), name);
    post(at(&ws, "complete"), None).await;
}

/// In this test, the age of intermediate snapshots does not protect them, and
/// they have no name yet.
#[tokio::test(flavor = "multi_thread")]
async fn landings_lose_nothing_to_collections() {
    let service = service().await;
    let (agent, key) = agent(&service, "one").await;
    let hidden = json!({"pattern": "secret/**", "agents": [agent], "access": "none"});
    let wish = json!({
        "name": "site",
        "retention": {"keep": "last", "count": 1},
        "policy": {"rules": [hidden]},
    });
    let made = service.post("/api/v1/projects", wish).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let files = json!([
        {"path": "secret/a", "content": "secret"},
        {"path": "shared.txt", "content": text(50)},
    ]);
    let apply = format!("/api/v1/projects/{id}/apply");
    let wish = Some(json!({"files": files}));
    service.expect(Method::POST, &apply, wish, 200).await;
    grow_old().await;

    let writers = (0..3).map(|writer| {
        let (service, id, key) = (&service, &id, &key);
        async move {
            for round in 0..5 {
                land_in_four_ways(service, id, key, &format!("w{writer}-{round}")).await;
            }
        }
    });
    let done = AtomicBool::new(false);
    let writing = async {
        futures::future::join_all(writers).await;
        done.store(true, Ordering::Relaxed);
    };
    let collecting = async {
        let mut count = 0;
        while !done.load(Ordering::Relaxed) {
            collect(&service).await;
            count += 1;
        }
        count
    };
    let ((), collections) = tokio::join!(writing, collecting);
    assert!(collections > 2, "{collections}");
    collect(&service).await;
    for writer in 0..3 {
        for round in 0..5 {
            let name = format!("w{writer}-{round}");
            let found = file(&service, &id, &name).await;
            assert_eq!(found, Some(name.repeat(1000)));
            for path in [format!("a-{name}"), format!("b-{name}")] {
                assert_eq!(file(&service, &id, &path).await.as_ref(), Some(&name));
            }
        }
    }
    assert_eq!(file(&service, &id, "secret/a").await.unwrap(), "secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_is_tried_and_watched() {
    let service = service().await;
    let never = service.get("/api/v1/gc").await;
    assert_eq!(never, json!({"running": false}));
    let id = project(&service, "site", json!({"keep": "last", "count": 2})).await;
    let snapshots = versions(&service, &id, 4).await;
    grow_old().await;
    let dry = Some(json!({"dryRun": true}));
    let would = service.expect(Method::POST, "/api/v1/gc", dry, 200).await;
    assert_eq!(would["droppedVersions"], 3, "{would}");
    assert!(would["cleanedSnapshots"].as_u64() >= Some(3), "{would}");
    for snapshot in &snapshots[1..] {
        assert_eq!(file_at(&service, &id, snapshot).await.0, 200);
    }
    let status = service.get("/api/v1/gc").await;
    let last = &status["last"];
    assert_eq!(last["result"]["droppedVersions"], 3, "{status}");
    assert_eq!(
        (&last["dryRun"], &last["full"]),
        (&json!(true), &json!(true))
    );

    let done = collect(&service).await;
    for what in ["droppedVersions", "cleanedSnapshots", "cleanedObjects"] {
        assert_eq!(done[what], would[what], "{what}: {done} after {would}");
    }
    let young = Some(json!({"full": false}));
    let young = service.expect(Method::POST, "/api/v1/gc", young, 200).await;
    assert_eq!(young["cleanedObjects"], 0, "{young}");
    let status = service.get("/api/v1/gc").await;
    assert_eq!(status["last"]["full"], false, "{status}");
    let wish = Some(json!({"dry": true}));
    service.expect(Method::POST, "/api/v1/gc", wish, 400).await;
    assert_only_one_runs(&service).await;
}

/// Checks that of several concurrent collections at least one runs and is
/// reported, and that the others are rejected.
async fn assert_only_one_runs(service: &Service) {
    let asking = (0..8).map(|_| status(service, Method::POST, "/api/v1/gc", None));
    let asking = futures::future::join_all(asking);
    let watching = async {
        for _ in 0..500 {
            let status = service.get("/api/v1/gc").await;
            if status["running"] == true {
                return Some(status["current"].clone());
            }
        }
        None
    };
    let (answers, seen) = tokio::join!(asking, watching);
    let ran = answers.iter().filter(|(status, _)| *status == 200).count();
    assert!(ran > 0, "{answers:?}");
    for (status, answer) in &answers {
        assert!([200, 409].contains(status), "{answer}");
        if *status == 409 {
            assert_eq!(answer["error"]["name"], "COLLECTION_RUNNING", "{answer}");
        }
    }
    let seen = seen.expect("one was under way");
    let phases = ["dropping", "waiting", "marking", "removing"];
    assert!(
        phases.map(|it| json!(it)).contains(&seen["phase"]),
        "{seen}"
    );
    assert!(
        seen["marked"].is_u64() && seen["removed"].is_u64(),
        "{seen}"
    );
}
