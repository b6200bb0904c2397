//! Rights to use a port: keys, links and cookies.

use serde_json::json;

use super::program::Program;
use super::*;

/// Opens a link on the host of its port. Returns the cookie of the response, as
/// a browser sends it.
pub(super) async fn exchanged(service: &Service, id: &str, port: u16, url: &str) -> String {
    let opening = format!("/page?x=1&elevo-link={}", token(url));
    let response = at_host(service, id, port, &opening).send().await.unwrap();
    assert_eq!(response.status(), 303);
    let headers = response.headers();
    let location = format!("http://{port}-{id}.{DOMAIN}/page?x=1");
    assert_eq!(headers["location"], location);
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["referrer-policy"], "no-referrer");
    let cookie = headers["set-cookie"].to_str().unwrap();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert!(attributes.starts_with("Path=/; Max-Age="), "{cookie}");
    assert!(attributes.ends_with("; HttpOnly; SameSite=Lax"), "{cookie}");
    assert!(!cookie.contains("Domain"), "{cookie}");
    assert!(pair.starts_with("elevo-port="), "{cookie}");
    pair.to_owned()
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_link_opens_its_port_until_it_expires() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    let other = Program::echo().await;
    let to =
        |port: u16, token: &str| at_path(&service, &id, port, &format!("/?elevo-link={token}"));
    let url = link(&service, &id, program.port, json!({})).await;
    let base = format!(
        "{}/api/v1/sandboxes/{id}/ports/{}/?elevo-link=",
        service.url, program.port
    );
    assert!(url.starts_with(&base), "{url}");
    let token = token(&url).to_owned();
    let response = to(program.port, &token).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.headers().get("set-cookie").is_none());
    // For another port, another sandbox, forged, and without the token.
    assert_eq!(status(to(other.port, &token)).await, 401);
    let neighbour = service.sandbox().await;
    let rest = format!("/?elevo-link={token}");
    assert_eq!(
        status(at_path(&service, &neighbour, program.port, &rest)).await,
        401
    );
    let (time, rest) = token.split_once('.').unwrap();
    let later = time.parse::<u64>().unwrap() + 1;
    for forged in [
        format!("{later}.{rest}"),
        format!("{token}x"),
        token[..token.len() - 1].to_owned(),
        String::new(),
        "x".repeat(10_000),
    ] {
        let refused = to(program.port, &forged).send().await.unwrap();
        assert_eq!(
            name_of(refused).await,
            (401, "UNAUTHORIZED".to_owned()),
            "{forged}"
        );
    }
    assert_eq!(status(at_path(&service, &id, program.port, "/")).await, 401);
    assert_eq!(program.received().len() + other.received().len(), 1);

    let path = format!("/api/v1/sandboxes/{id}/ports/{}/link", program.port);
    for wrong in [
        json!({"expiresIn": 0}),
        json!({"expiresIn": 86401}),
        json!({"for": 1}),
    ] {
        let refused = service.expect(Method::POST, &path, Some(wrong), 400).await;
        assert_eq!(refused["error"]["name"], "INVALID_REQUEST");
    }
    let brief = link(&service, &id, program.port, json!({"expiresIn": 1})).await;
    let brief = super::token(&brief);
    eventually("the link expires", async || {
        status(to(program.port, brief)).await == 401
    })
    .await;
}

#[tokio::test]
async fn a_link_ends_with_its_key_and_with_its_sandbox() {
    let service = with_domain().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    let made = service.post("/api/v1/keys", json!({"name": "k"})).await;
    let path = format!("/api/v1/sandboxes/{id}/ports/{}/link", program.port);
    let secret = made["secret"].as_str().unwrap();
    let linked = service
        .expect_as(secret, Method::POST, &path, None, 201)
        .await;
    let url = linked["url"].as_str().unwrap();
    let cookie = exchanged(&service, &id, program.port, url).await;
    let by_cookie = || at_host(&service, &id, program.port, "/").header("cookie", &cookie);
    let by_link = || {
        let rest = format!("/?elevo-link={}", token(url));
        at_path(&service, &id, program.port, &rest)
    };
    assert_eq!(
        (status(by_cookie()).await, status(by_link()).await),
        (200, 200)
    );
    let key = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    service.expect(Method::DELETE, &key, None, 204).await;
    assert_eq!(
        (status(by_cookie()).await, status(by_link()).await),
        (401, 401)
    );

    let url = link(&service, &id, program.port, json!({})).await;
    let by_link = || {
        let rest = format!("/?elevo-link={}", token(&url));
        at_path(&service, &id, program.port, &rest)
    };
    assert_eq!(status(by_link()).await, 200);
    service.delete(&id).await;
    assert_eq!(status(by_link()).await, 404);
}

#[tokio::test]
async fn links_and_cookies_survive_a_restart_of_the_server() {
    let mut service = with_domain().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    let url = link(&service, &id, program.port, json!({})).await;
    let cookie = exchanged(&service, &id, program.port, &url).await;
    service.stop();
    service.run();
    let request = at_host(&service, &id, program.port, "/").header("cookie", &cookie);
    assert_eq!(status(request).await, 200);
    exchanged(&service, &id, program.port, &url).await;
}

#[tokio::test]
async fn a_cookie_is_for_one_host_and_its_own_pages() {
    let service = with_domain().await;
    let [id, neighbour] = [service.sandbox().await, service.sandbox().await];
    let program = Program::echo().await;
    let url = link(&service, &id, program.port, json!({})).await;
    let cookie = exchanged(&service, &id, program.port, &url).await;
    let with =
        |id: &str, cookie: &str| at_host(&service, id, program.port, "/").header("cookie", cookie);
    assert_eq!(status(with(&id, &cookie)).await, 200);
    assert_eq!(status(with(&neighbour, &cookie)).await, 401);
    // A page of a neighbour set a cookie for the whole domain.
    let tossed = format!("elevo-port=forged; {cookie}; elevo-port=forged");
    assert_eq!(status(with(&id, &tossed)).await, 200);
    // The token of a link is not a cookie, nor the reverse.
    let swapped = format!("elevo-port={}", token(&url));
    assert_eq!(status(with(&id, &swapped)).await, 401);
    let swapped = format!("/?elevo-link={}", cookie.split('=').nth(1).unwrap());
    assert_eq!(
        status(at_host(&service, &id, program.port, &swapped)).await,
        401
    );
    // The path form has no cookies.
    let request = at_path(&service, &id, program.port, "/").header("cookie", &cookie);
    assert_eq!(status(request).await, 401);
    let sibling = format!("http://{}-{neighbour}.{DOMAIN}", program.port);
    let request = with(&id, &cookie).header("origin", &sibling);
    assert_eq!(
        name_of(request.send().await.unwrap()).await,
        (403, "FORBIDDEN".to_owned())
    );
    let request = with(&id, &cookie).header("sec-fetch-site", "same-site");
    assert_eq!(status(request).await, 403);
    let secure =
        Service::start_with(&[("PORTS_DOMAIN", DOMAIN), ("PUBLIC_URL", "https://api.test")]);
    let secure = secure.await;
    let id = secure.sandbox().await;
    let url = link(&secure, &id, program.port, json!({})).await;
    assert!(
        url.starts_with(&format!("https://{}-{id}.{DOMAIN}/?", program.port)),
        "{url}"
    );
    let opening = format!("//evil.test/?elevo-link={}", token(&url));
    let opened = at_host(&secure, &id, program.port, &opening)
        .send()
        .await
        .unwrap();
    let cookie = opened.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-elevo-port="), "{cookie}");
    assert!(
        cookie.ends_with("; HttpOnly; SameSite=Lax; Secure"),
        "{cookie}"
    );
    let location = format!("https://{}-{id}.{DOMAIN}//evil.test/", program.port);
    assert_eq!(opened.headers()["location"], location);
}

#[tokio::test]
async fn only_keys_with_the_right_reach_a_port() {
    let service = with_domain().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    let link = format!("/api/v1/sandboxes/{id}/ports/{}/link", program.port);
    let scopes = json!({"name": "k", "scopes": ["sandboxes:read", "sandboxes:write", "files"]});
    let weak = service.post("/api/v1/keys", scopes).await;
    let tenant = service
        .post("/api/v1/tenants", json!({"name": "other"}))
        .await;
    let agent = service.post("/api/v1/agents", json!({"name": "ada"})).await;
    let of_agent = json!({"name": "a", "agent": agent["id"]});
    let of_agent = service.post("/api/v1/keys", of_agent).await;
    let cases = [
        (weak["secret"].as_str().unwrap(), 403),
        (
            tenant["key"]["secret"]
                .as_str()
                .or(tenant["secret"].as_str())
                .unwrap(),
            404,
        ),
        (of_agent["secret"].as_str().unwrap(), 404),
    ];
    for (key, expected) in cases {
        let path = at_path(&service, &id, program.port, "/").bearer_auth(key);
        assert_eq!(status(path).await, expected);
        let host = at_host(&service, &id, program.port, "/").bearer_auth(key);
        assert_eq!(status(host).await, expected);
        service
            .expect_as(key, Method::POST, &link, None, expected)
            .await;
    }
    assert!(program.received().is_empty());
}

#[tokio::test]
async fn the_api_is_not_served_on_the_hosts_of_ports() {
    let service = with_domain().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    let ask = |host: String| {
        let request = service
            .http
            .get(format!("{}/api/v1/sandboxes", service.url));
        request.header("host", host).bearer_auth(KEY)
    };
    let own = ask(format!("{}-{id}.{DOMAIN}:81", program.port));
    let text = own.send().await.unwrap().text().await.unwrap();
    assert!(text.starts_with("GET /api/v1/sandboxes HTTP/1.1"), "{text}");
    for wrong in [
        format!("{id}.{DOMAIN}"),
        format!("x.{}-{id}.{DOMAIN}", program.port),
        format!("0{}-{id}.{DOMAIN}", program.port),
        format!("{}-{id}.{DOMAIN}.", program.port),
    ] {
        let refused = ask(wrong.clone()).send().await.unwrap();
        assert_eq!(
            name_of(refused).await,
            (404, "NOT_FOUND".to_owned()),
            "{wrong}"
        );
    }
    for of_api in [
        DOMAIN.to_owned(),
        format!("{DOMAIN}:81"),
        "api.test".to_owned(),
    ] {
        let listed = ask(of_api).send().await.unwrap();
        let listed: Value = listed.json().await.unwrap();
        assert_eq!(listed["total"], 1);
    }
    assert_eq!(program.received().len(), 1);
}
