//! The checked-in API description equals the one that the server has.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::disallowed_methods,
    reason = "a variable lets the test write the file"
)]

#[test]
fn the_description_of_the_api_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi/elevo.json");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let text = elevo_server::openapi_json();
    if kept != text {
        if std::env::var("ELEVO_UPDATE").is_ok() {
            std::fs::write(path, text).unwrap();
        }
        panic!("openapi/elevo.json is stale; run this test with ELEVO_UPDATE=1");
    }
}
