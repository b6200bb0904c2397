//! No secret of the server reaches a program, and a program learns about the
//! client only from the server.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::program::Program;
use super::*;

/// Sends a request, and asserts that the program received none of the secrets.
async fn send(program: &Program, request: RequestBuilder, secrets: &[&str]) -> String {
    let before = program.received().len();
    let response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    assert_eq!(status, 200, "{text}");
    let received = program.received().split_off(before).concat();
    assert_eq!(received, text, "the program shows what it received");
    for secret in secrets {
        let is_there = received.to_lowercase().contains(&secret.to_lowercase());
        assert!(!is_there, "{secret} in {received}");
    }
    received
}

#[tokio::test]
async fn no_secret_reaches_the_program_in_the_path_form() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    let to = |rest: &str| at_path(&service, &id, program.port, rest);
    let secrets = [KEY, "MARK-COOKIE", "MARK-CLAIM", "x-api-key"];
    for (name, value) in [
        ("authorization", format!("Bearer {KEY}")),
        ("authorization", format!("bearer  {KEY} ")),
        ("x-api-key", KEY.to_owned()),
    ] {
        let request = to("/page?own=1").header(name, value);
        let request = request
            .header("cookie", "session=MARK-COOKIE")
            .header("x-forwarded-for", "MARK-CLAIM")
            .header("x-forwarded-user", "MARK-CLAIM")
            .header("forwarded", "for=MARK-CLAIM")
            .header("x-real-ip", "MARK-CLAIM");
        let received = send(&program, request, &secrets).await;
        assert!(received.starts_with("GET /page?own=1 "), "{received}");
        assert!(!received.contains("authorization"), "{received}");
    }
    // A key in both headers, in either order, and one that is not used.
    let both = to("/").header("x-api-key", KEY).bearer_auth(KEY);
    send(&program, both, &secrets).await;
    let made = service.post("/api/v1/keys", json!({"name": "other"})).await;
    let other = made["secret"].as_str().unwrap();
    let both = to("/").header("x-api-key", KEY).bearer_auth(other);
    send(&program, both, &[KEY, other]).await;
    let basic = to("/").header("x-api-key", KEY);
    let basic = basic.header("authorization", format!("Basic {other}"));
    send(&program, basic, &[KEY, other]).await;
    // `Authorization` of the program itself reaches it.
    let own = to("/")
        .header("x-api-key", KEY)
        .bearer_auth("of-the-program");
    let received = send(&program, own, &[KEY]).await;
    assert!(received.contains("Bearer of-the-program"), "{received}");

    let url = link(&service, &id, program.port, json!({})).await;
    let token = token(&url);
    let ticket = URL_SAFE_NO_PAD.encode([7; 32]);
    let rest = format!("/page?a=1&elevo-link={token}&ticket={ticket}&b=2");
    let request = to(&rest).header("cookie", "session=MARK-COOKIE");
    let request = request.header("x-api-key", KEY).bearer_auth(KEY);
    let request = request.header("referer", &url);
    let hidden = [token, &ticket, KEY, "MARK-COOKIE", "elevo-link"];
    let received = send(&program, request, &hidden).await;
    assert!(received.starts_with("GET /page?a=1&b=2 "), "{received}");
    let encoded = format!("/?elevo%2Dlink={token}");
    send(&program, to(&encoded), &[token]).await;
}

#[tokio::test]
async fn no_secret_reaches_the_program_in_the_domain_form() {
    let service = with_domain().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    let to = |rest: &str| at_host(&service, &id, program.port, rest);
    for request in [
        to("/api/v1/sandboxes").bearer_auth(KEY),
        to("/").header("x-api-key", KEY),
        to("/").header("x-api-key", KEY).bearer_auth(KEY),
    ] {
        let request = request.header("x-forwarded-host", "MARK-CLAIM");
        let received = send(&program, request, &[KEY, "MARK-CLAIM"]).await;
        let host = format!("host: {}-{id}.{DOMAIN}\r\n", program.port);
        assert!(received.contains(&host), "{received}");
        assert!(!received.contains("x-forwarded-prefix"), "{received}");
    }
    let url = link(&service, &id, program.port, json!({})).await;
    let token = token(&url);
    let cookie = links::exchanged(&service, &id, program.port, &url).await;
    let value = cookie.split('=').nth(1).unwrap();
    let ticket = URL_SAFE_NO_PAD.encode([7; 32]);
    let request = to(&format!("/?ticket={ticket}"));
    let request = request.header("cookie", format!("own=1; {cookie}; more=2"));
    let request = request.header("referer", &url);
    let hidden = [value, token, &ticket, "elevo-port", "elevo-link"];
    let received = send(&program, request, &hidden).await;
    assert!(received.contains("cookie: own=1; more=2\r\n"), "{received}");
    // A POST is not redirected, and works for this request alone.
    let rest = format!("/form?elevo-link={token}&x=1");
    let (client, request) = to(&rest).build_split();
    let mut request = request.unwrap();
    *request.method_mut() = Method::POST;
    let response = client.execute(request).await.unwrap();
    assert!(response.headers().get("set-cookie").is_none());
    let text = response.text().await.unwrap();
    assert!(text.starts_with("POST /form?x=1 "), "{text}");
    assert!(!text.contains(token), "{text}");
}
