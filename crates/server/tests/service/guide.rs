//! Sends every request in `docs/api.md`, in order, to a server with Docker.
//!
//! A block with the language `http` has a request and, after an empty line, the
//! status and the body of its response. `…` in a response stands for any text,
//! and `, …` for more fields.

use reqwest::Method;
use serde_json::Value;

use crate::harness::Service;

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");

/// A request of the guide with its expected response.
#[derive(Debug)]
struct Exchange {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
    status: u16,
    response: Option<Value>,
}

/// Returns the exchanges in a page.
fn exchanges(page: &str) -> Vec<Exchange> {
    let blocks = page.split("```http\n").skip(1);
    blocks
        .map(|block| exchange(block.split("```").next().unwrap()))
        .collect()
}

fn exchange(block: &str) -> Exchange {
    let is_status = |line: &str| {
        let (code, rest) = line.split_at_checked(3).unwrap_or_default();
        code.parse::<u16>().is_ok() && (rest.is_empty() || rest.starts_with(' '))
    };
    let lines: Vec<&str> = block.lines().collect();
    let end = lines.iter().position(|line| is_status(line));
    let end = end.unwrap_or_else(|| panic!("a block without a status:\n{block}"));
    let (request, response) = lines.split_at(end);
    let (method, path) = request[0].split_once(' ').unwrap();
    let is_header = |line: &&&str| !line.starts_with(['{', '[']) && line.contains(": ");
    let headers: Vec<_> = request[1..].iter().take_while(is_header).collect();
    let body = &request[1 + headers.len()..];
    let response_text = response[1..]
        .join("\n")
        .replace("{…}", "{}")
        .replace(", …", "");
    Exchange {
        method: method.parse().unwrap(),
        path: path.to_owned(),
        headers: headers
            .iter()
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        body: body.join("\n").trim().to_owned(),
        status: response[0][..3].parse().unwrap(),
        response: match response_text.trim() {
            "" => None,
            text => Some(serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}:\n{text}"))),
        },
    }
}

/// Checks that a response has everything that the guide shows.
fn assert_shows(found: &Value, shown: &Value, at: &str) {
    match (found, shown) {
        (Value::Object(found), Value::Object(shown)) => {
            for (name, shown) in shown {
                let part = found.get(name);
                let part = part.unwrap_or_else(|| panic!("{at}: no `{name}` in {found:?}"));
                assert_shows(part, shown, &format!("{at}.{name}"));
            }
        }
        (Value::Array(found), Value::Array(shown)) => {
            assert_eq!(found.len(), shown.len(), "{at}: {found:?}");
            for (number, (found, shown)) in found.iter().zip(shown).enumerate() {
                assert_shows(found, shown, &format!("{at}[{number}]"));
            }
        }
        (Value::String(found), Value::String(shown)) => {
            let mut rest = found.as_str();
            let mut parts = shown.split('…');
            let first = parts.next().unwrap_or_default();
            rest = rest
                .strip_prefix(first)
                .unwrap_or_else(|| panic!("{at}: `{found}` is not `{shown}`"));
            for part in parts {
                let place = rest.find(part);
                let place = place.unwrap_or_else(|| panic!("{at}: `{found}` is not `{shown}`"));
                rest = &rest[place + part.len()..];
            }
            let is_open = shown.ends_with('…');
            assert!(
                is_open || rest.is_empty(),
                "{at}: `{found}` is not `{shown}`"
            );
        }
        (found, shown) => assert_eq!(found, shown, "{at}"),
    }
}

mod on_docker {
    use super::*;

    #[tokio::test]
    async fn every_request_of_the_guide_has_the_response_that_it_shows() {
        let service = Service::with_docker().await;
        service.expect_warnings();
        let exchanges = exchanges(&std::fs::read_to_string(GUIDE).unwrap());
        assert!(exchanges.len() > 40, "{}", exchanges.len());
        for exchange in exchanges {
            let what = format!("{} {}", exchange.method, exchange.path);
            let mut request = service.request(exchange.method, &exchange.path);
            for (name, value) in &exchange.headers {
                request = request.header(name, value);
            }
            if !exchange.body.is_empty() {
                request = request
                    .header("content-type", "application/json")
                    .body(exchange.body);
            }
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let is_stream = response
                .headers()
                .get("content-type")
                .is_some_and(|kind| kind == "text/event-stream");
            // A stream of events does not end by itself.
            let text = match is_stream && exchange.response.is_none() {
                true => String::new(),
                false => response.text().await.unwrap_or_default(),
            };
            assert_eq!(status, exchange.status, "{what}: {text}");
            if let Some(shown) = &exchange.response {
                let found = serde_json::from_str(&text);
                let found: Value = found.unwrap_or_else(|e| panic!("{what}: {e}: {text}"));
                assert_shows(&found, shown, &what);
            }
        }
    }
}
