//! Ranges and conditions of requests for a file, and the headers of the
//! response (RFC 9110, sections 13 and 14).

use std::ops::Range;
use std::time::SystemTime;

use axum::body::Body;
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use elevo_core::ErrorCode;
use jiff::Timestamp;

use crate::failure::Failure;
use crate::http::answer::ApiError;

/// The properties of a file that its response depends on.
#[derive(Clone, Debug)]
pub(crate) struct FileHead {
    /// Size in bytes.
    pub(crate) size: u64,
    /// The `ETag`, with its quotes.
    pub(crate) etag: String,
    /// Permission bits.
    pub(crate) mode: u32,
    /// Time of the last change, if it is known.
    pub(crate) modified: Option<SystemTime>,
}

/// The part of a file that a request gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// 200: the whole file.
    Whole,
    /// 206: these bytes, at least one.
    Part(Range<u64>),
    /// 304: the client has the file already.
    NotModified,
    /// 416: the range starts at or after the end of the file.
    Unsatisfiable,
}

impl Decision {
    /// Returns the bytes of a file of this size that the response contains;
    /// `None` for a response without content.
    pub(crate) fn bytes(&self, size: u64) -> Option<Range<u64>> {
        match self {
            Self::Whole => Some(0..size),
            Self::Part(range) => Some(range.clone()),
            Self::NotModified | Self::Unsatisfiable => None,
        }
    }
}

/// Decides which part of a file a GET or HEAD request gets.
pub(crate) fn decide(method: &Method, headers: &HeaderMap, size: u64, etag: &str) -> Decision {
    if is_listed(headers, header::IF_NONE_MATCH, etag) {
        return Decision::NotModified;
    }
    // RFC 9110 defines ranges only for GET.
    let range = match *method == Method::GET && is_the_version_of_the_client(headers, etag) {
        true => single(headers, header::RANGE),
        false => None,
    };
    range.map_or(Decision::Whole, |range| part(range, size))
}

/// Returns true if a header such as `If-None-Match` is `*` or lists an `ETag`.
/// Only strong tags are compared: a weak one says that the file may have changed
/// since without another tag.
pub(crate) fn is_listed(headers: &HeaderMap, name: HeaderName, etag: &str) -> bool {
    let lines = headers.get_all(name).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    // A tag of the server has no comma, so a comma in a foreign tag does not
    // change the result.
    let mut tags = lines.flat_map(|line| line.split(',').map(str::trim));
    let is_strong = !etag.starts_with("W/");
    tags.any(|tag| tag == "*" || (is_strong && tag == etag))
}

/// Returns false if `If-Range` names another version than the current one. The
/// client then needs the whole file.
fn is_the_version_of_the_client(headers: &HeaderMap, etag: &str) -> bool {
    let named = headers.get(header::IF_RANGE);
    let is_strong = !etag.starts_with("W/");
    named.is_none_or(|named| is_strong && named.as_bytes() == etag.as_bytes())
}

/// Returns the value of a header that occurs once.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut lines = headers.get_all(name).into_iter();
    let first = lines.next()?.to_str().ok();
    first.filter(|_| lines.next().is_none())
}

/// Decides about the text of `Range`. A text with an error, another unit or
/// several ranges gets the whole file.
fn part(text: &str, size: u64) -> Decision {
    let Some((first, last)) = bounds(text) else {
        return Decision::Whole;
    };
    let (start, end) = match (first, last) {
        (None, None) => return Decision::Whole,
        (Some(first), Some(last)) if last < first => return Decision::Whole,
        // No part of an empty file can be described, so it is sent as a whole.
        (None, Some(length)) if length > 0 && size == 0 => return Decision::Whole,
        (None, Some(length)) => (size.saturating_sub(length), size),
        (Some(first), None) => (first, size),
        (Some(first), Some(last)) => (first, last.saturating_add(1).min(size)),
    };
    match start < end {
        true => Decision::Part(start..end),
        false => Decision::Unsatisfiable,
    }
}

/// Parses `bytes=FIRST-LAST`, where each number may be missing.
fn bounds(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, range) = text.trim().split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let is_bytes = unit.eq_ignore_ascii_case("bytes");
    is_bytes.then_some((number(first)?, number(last)?))
}

/// Parses a number or nothing. A number that is too large for any file becomes
/// the largest one.
fn number(digits: &str) -> Option<Option<u64>> {
    if digits.is_empty() {
        return Some(None);
    }
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Some(digits.parse().unwrap_or(u64::MAX)))
}

/// Creates the response for a decision. `body` has the bytes that
/// `Decision::bytes` returned; for HEAD it may be empty.
pub(crate) fn respond(head: &FileHead, decision: &Decision, body: Body) -> Response {
    let size = head.size;
    let (status, length, range) = match decision {
        Decision::Unsatisfiable => {
            let message = format!("the file has only {size} bytes");
            let failure = Failure::new(ErrorCode::RangeNotSatisfiable, message);
            let range = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            return (range, ApiError::from(failure.about("size", size))).into_response();
        }
        Decision::NotModified => (StatusCode::NOT_MODIFIED, None, None),
        Decision::Whole => (StatusCode::OK, Some(size), None),
        Decision::Part(part) => {
            let range = format!("bytes {}-{}/{size}", part.start, part.end - 1);
            let length = part.end - part.start;
            (StatusCode::PARTIAL_CONTENT, Some(length), Some(range))
        }
    };
    let mut response = match length {
        Some(_) => (status, body).into_response(),
        None => status.into_response(),
    };
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    };
    set(header::ETAG, head.etag.clone());
    if let Some(modified) = head.modified.and_then(http_date) {
        set(header::LAST_MODIFIED, modified);
    }
    // A cache asks for a newer version each time.
    set(header::CACHE_CONTROL, "private, no-cache".into());
    set(MODE, format!("{:04o}", head.mode));
    let Some(length) = length else {
        return response;
    };
    set(header::CONTENT_LENGTH, length.to_string());
    set(header::ACCEPT_RANGES, "bytes".into());
    set(header::CONTENT_TYPE, "application/octet-stream".into());
    // A browser must not run the file as a page of the server.
    set(header::CONTENT_DISPOSITION, "attachment".into());
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff".into());
    if let Some(range) = range {
        set(header::CONTENT_RANGE, range);
    }
    response
}

/// Name of the header with the permission bits.
const MODE: HeaderName = HeaderName::from_static("x-elevo-mode");

/// Returns a time as the text of `Last-Modified`.
fn http_date(time: SystemTime) -> Option<String> {
    let time = Timestamp::try_from(time).ok()?;
    Some(time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;
    use proptest::prelude::*;

    use super::*;

    const TAG: &str = "\"tag\"";

    fn asked(lines: &[(HeaderName, &str)], size: u64) -> Decision {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        decide(&Method::GET, &headers, size, TAG)
    }

    fn ranged(range: &str, size: u64) -> Decision {
        asked(&[(header::RANGE, range)], size)
    }

    #[test]
    fn a_range_is_a_part_of_the_file() {
        assert_eq!(ranged("bytes=0-0", 10), Decision::Part(0..1));
        assert_eq!(ranged("bytes=2-4", 10), Decision::Part(2..5));
        assert_eq!(ranged("bytes=2-99", 10), Decision::Part(2..10));
        assert_eq!(ranged("bytes=9-", 10), Decision::Part(9..10));
        assert_eq!(ranged("bytes=-3", 10), Decision::Part(7..10));
        assert_eq!(ranged("bytes=-99", 10), Decision::Part(0..10));
        assert_eq!(ranged("BYTES=1-1", 10), Decision::Part(1..2));
        let last = format!("bytes=0-{}", u64::MAX);
        assert_eq!(ranged(&last, u64::MAX), Decision::Part(0..u64::MAX));
        let huge = "bytes=1-99999999999999999999999999";
        assert_eq!(ranged(huge, 10), Decision::Part(1..10));
    }

    #[test]
    fn a_range_without_bytes_of_the_file_is_not_satisfiable() {
        for range in [
            "bytes=10-",
            "bytes=10-12",
            "bytes=-0",
            "bytes=9999999999999999999999-",
        ] {
            assert_eq!(ranged(range, 10), Decision::Unsatisfiable, "{range}");
        }
        assert_eq!(ranged("bytes=0-", 0), Decision::Unsatisfiable);
        assert_eq!(ranged("bytes=-5", 0), Decision::Whole);
    }

    #[test]
    fn a_range_that_is_not_understood_is_ignored() {
        let wrong = [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=1",
            "bytes=3-2",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1--2",
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes 0-1",
            "bytes=1-2-3",
            "bytes=0x1-2",
        ];
        for range in wrong {
            assert_eq!(ranged(range, 10), Decision::Whole, "{range}");
        }
        let two = [(header::RANGE, "bytes=0-1"), (header::RANGE, "bytes=3-4")];
        assert_eq!(asked(&two, 10), Decision::Whole);
    }

    #[test]
    fn head_ignores_ranges() {
        let headers =
            HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static("bytes=0-1"))]);
        let decision = decide(&Method::HEAD, &headers, 10, TAG);
        assert_eq!(decision, Decision::Whole);
    }

    #[test]
    fn a_client_that_has_the_file_gets_no_content() {
        for known in ["\"tag\"", "*", "\"other\", \"tag\"", "\"a,b\" , \"tag\""] {
            let decision = asked(&[(header::IF_NONE_MATCH, known)], 10);
            assert_eq!(decision, Decision::NotModified, "{known}");
        }
        for known in [
            "",
            "tag",
            "W/\"tag\"",
            "\"TAG\"",
            "\"other\"",
            "w/\"tag\"",
            "\"tag",
        ] {
            let decision = asked(&[(header::IF_NONE_MATCH, known)], 10);
            assert_eq!(decision, Decision::Whole, "{known}");
        }
        let with_range = [(header::RANGE, "bytes=99-"), (header::IF_NONE_MATCH, TAG)];
        assert_eq!(asked(&with_range, 10), Decision::NotModified);
    }

    #[test]
    fn a_range_of_another_version_gets_the_whole_file() {
        let of = |version| {
            asked(
                &[(header::RANGE, "bytes=0-1"), (header::IF_RANGE, version)],
                10,
            )
        };
        assert_eq!(of(TAG), Decision::Part(0..2));
        for version in ["\"other\"", "W/\"tag\"", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert_eq!(of(version), Decision::Whole, "{version}");
        }
    }

    fn head() -> FileHead {
        FileHead {
            size: 10,
            etag: TAG.into(),
            mode: 0o644,
            modified: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)),
        }
    }

    #[tokio::test]
    async fn a_response_describes_its_part_of_the_file() {
        let response = respond(&head(), &Decision::Part(2..5), Body::from("cde"));
        assert_eq!(response.status(), 206);
        let expected = [
            ("content-range", "bytes 2-4/10"),
            ("content-length", "3"),
            ("content-type", "application/octet-stream"),
            ("content-disposition", "attachment"),
            ("x-content-type-options", "nosniff"),
            ("accept-ranges", "bytes"),
            ("x-elevo-mode", "0644"),
            ("etag", TAG),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ];
        for (name, value) in expected {
            assert_eq!(response.headers()[name], value, "{name}");
        }
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "cde");
    }

    #[tokio::test]
    async fn responses_without_content_have_its_tag_or_size() {
        let response = respond(&head(), &Decision::NotModified, Body::from("never sent"));
        assert_eq!(response.status(), 304);
        assert_eq!(response.headers()["etag"], TAG);
        assert!(!response.headers().contains_key("content-length"));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "");
        let response = respond(&head(), &Decision::Unsatisfiable, Body::empty());
        assert_eq!(response.status(), 416);
        assert_eq!(response.headers()["content-range"], "bytes */10");
    }

    /// A plain model: the positions of a file that a range names.
    fn named(first: Option<u64>, last: Option<u64>, size: u64) -> Vec<u64> {
        let is_named = |at: &u64| match (first, last) {
            (Some(first), last) => *at >= first && last.is_none_or(|last| *at <= last),
            (None, Some(length)) => *at + length >= size,
            (None, None) => true,
        };
        (0..size).filter(is_named).collect()
    }

    proptest! {
        #[test]
        fn a_range_gets_the_bytes_that_it_names(
            first in prop::option::of(0..40_u64),
            last in prop::option::of(0..40_u64),
            size in 0..32_u64,
        ) {
            let text = |number: Option<u64>| number.map_or(String::new(), |it| it.to_string());
            let decision = ranged(&format!("bytes={}-{}", text(first), text(last)), size);
            let is_reversed = matches!((first, last), (Some(first), Some(last)) if last < first);
            let expected: Vec<u64> = match is_reversed {
                true => (0..size).collect(),
                false => named(first, last, size),
            };
            let bytes = decision.bytes(size).map(|range| range.collect::<Vec<_>>());
            prop_assert_eq!(bytes.unwrap_or_default(), expected);
        }

        #[test]
        fn any_range_stays_inside_the_file(text in "\\PC{0,20}|bytes=[0-9,-]{0,24}", size: u64) {
            match part(&text, size) {
                Decision::Part(range) => prop_assert!(range.start < range.end && range.end <= size),
                Decision::NotModified => prop_assert!(false),
                Decision::Whole | Decision::Unsatisfiable => {}
            }
        }
    }
}
