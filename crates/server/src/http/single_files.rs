//! Single files of sandboxes and workspaces. Both have the same routes, which
//! share the functions here.

mod of_sandbox;
mod of_workspace;

use axum::Json;
use axum::body::{Body, HttpBody};
use axum::extract::FromRequestParts;
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use elevo_api as api;
use futures::{StreamExt, TryStreamExt};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;

use crate::app::access::principal::Principal;
use crate::app::files::target::WorkspaceRef;
use crate::app::files::uploads::PutOptions;
use crate::failure::{Failure, Result, short};
use crate::http::answer::{Answer, ApiError, counted};
use crate::http::page::{LONG_PAGE, page};
use crate::http::ranges::{self, FileHead};
use crate::http::shared::Shared;
use crate::platform::audit;
use crate::platform::files::stat::{Condition, Tags};
use crate::platform::share::{self, Held};

/// Routes of single files.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    of_sandbox::routes().merge(of_workspace::routes())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OneFile {
    /// The file: relative to the workspace, or absolute. Bytes that are not
    /// UTF-8 are percent-encoded.
    #[allow(dead_code, reason = "`RawPath` reads it")]
    path: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct NewFile {
    /// The file: relative to the workspace, or absolute. Bytes that are not
    /// UTF-8 are percent-encoded.
    #[allow(dead_code, reason = "`RawPath` reads it")]
    path: String,
    /// Permission bits in octal; by default those of the file that is replaced,
    /// or `0644`.
    #[param(example = "0644")]
    mode: Option<String>,
    /// Whether missing directories are created; true by default.
    parents: Option<bool>,
    /// Whether the file and its directory are written to the disk before the
    /// response; false by default.
    sync: Option<bool>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeletedFile {
    /// The file, link or directory: relative to the workspace, or absolute.
    #[allow(dead_code, reason = "`RawPath` reads it")]
    path: String,
    /// Whether a directory is deleted with everything in it; false by default.
    recursive: Option<bool>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListedFiles {
    /// The directory: relative to the workspace, or absolute; the workspace by
    /// default.
    #[allow(dead_code, reason = "`RawPath` reads it")]
    path: Option<String>,
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of entries; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Maximum size of the texts of a page that does not count towards the tenant's
/// share of memory.
const SMALL_PAGE: usize = 256 << 10;

/// The bytes of the parameter `path`, which need not be UTF-8.
pub(super) struct RawPath(Vec<u8>);

impl FromRequestParts<Shared> for RawPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let mut values = query.split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name) == b"path").then(|| decoded(value))
        });
        let path = values.next().unwrap_or_default();
        match values.next() {
            None => Ok(Self(path)),
            Some(_) => Err(Failure::invalid("the query has `path` twice").into()),
        }
    }
}

/// Decodes a part of a query.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let text = text.as_bytes();
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let digits = (digit(text.get(at + 1)), digit(text.get(at + 2)));
        match (byte, digits) {
            (b'%', (Some(high), Some(low))) => {
                bytes.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*byte),
        }
        at += 1;
    }
    bytes
}

/// Responds with the content of a file, or a part of it.
async fn read(
    shared: &Shared,
    who: &Principal,
    of: WorkspaceRef,
    path: RawPath,
    (method, headers): (Method, HeaderMap),
) -> Answer<Response> {
    let file = shared.app.files.open_file(who, &of, &path.0).await?;
    let head = FileHead {
        size: file.info.size.unwrap_or_default(),
        etag: file.info.etag.clone().unwrap_or_default(),
        mode: file.mode,
        modified: Some(file.modified),
    };
    let decision = ranges::decide(&method, &headers, head.size, &head.etag);
    let body = match decision.bytes(head.size) {
        Some(bytes) if method == Method::GET => {
            let pieces = file.pieces(bytes);
            Body::from_stream(pieces.or_else(async |failure| {
                // Lets hyper send earlier pieces first.
                tokio::task::yield_now().await;
                Err(std::io::Error::other(failure.summary()))
            }))
        }
        _ => Body::empty(),
    };
    Ok(ranges::respond(&head, &decision, body))
}

/// Writes a file.
async fn write(
    shared: &Shared,
    who: &Principal,
    of: WorkspaceRef,
    path: RawPath,
    query: NewFile,
    (headers, body): (HeaderMap, Body),
) -> Answer<Response> {
    note(&path.0);
    let options = PutOptions {
        mode: query.mode.as_deref().map(mode).transpose()?,
        parents: query.parents.unwrap_or(true),
        sync: query.sync.unwrap_or(false),
        condition: condition(&headers)?,
    };
    let files = &shared.app.files;
    let known = (options, body.size_hint().lower());
    let mut upload = files.begin_upload(who, &of, &path.0, known).await?;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece =
            piece.map_err(|error| Failure::invalid(format!("the body is incomplete: {error}")))?;
        files.append(&mut upload, &piece).await?;
    }
    let (info, is_new) = files.finish_upload(upload).await?;
    Ok(created(info, is_new))
}

/// Deletes a file, a link or a directory.
async fn remove(
    shared: &Shared,
    who: &Principal,
    of: WorkspaceRef,
    path: RawPath,
    query: DeletedFile,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    note(&path.0);
    let (recursive, condition) = (query.recursive.unwrap_or(false), condition(&headers)?);
    let files = &shared.app.files;
    files
        .remove_file(who, &of, &path.0, recursive, condition)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists a directory.
async fn list(
    shared: &Shared,
    who: &Principal,
    of: WorkspaceRef,
    path: RawPath,
    query: ListedFiles,
) -> Answer<Response> {
    let page = page(query.cursor, query.limit, LONG_PAGE)?;
    let files = &shared.app.files;
    let page = files.list_files(who, &of, &path.0, page).await?;
    counted_page(shared, who, &page)
}

/// Responds with a page of files. Long paths and targets of links make a page
/// large, and it stays in memory until the client has received it.
pub(super) fn counted_page(
    shared: &Shared,
    who: &Principal,
    page: &api::FilePage,
) -> Answer<Response> {
    let sizes = page.items.iter().map(|item| {
        let target = item.target.as_ref().map_or(0, String::len);
        item.path.len() + item.name.len() + target
    });
    let held = match sizes.sum::<usize>() {
        0..=SMALL_PAGE => Held::default(),
        size => {
            let held = shared.app.stores.shares.hold(who.tenant, 2 * size);
            held.ok_or_else(share::too_many_bytes)?
        }
    };
    Ok(counted(page, held))
}

/// Moves a file, a link or a directory.
async fn rename(
    shared: &Shared,
    who: &Principal,
    of: WorkspaceRef,
    wish: api::MoveFile,
) -> Answer<Json<api::FileInfo>> {
    note(wish.from.as_bytes());
    audit::detail("to", short(&wish.to));
    Ok(Json(shared.app.files.rename_file(who, &of, &wish).await?))
}

/// Creates a directory.
async fn make_directory(
    shared: &Shared,
    who: &Principal,
    of: WorkspaceRef,
    wish: api::MakeDirectory,
) -> Answer<Response> {
    note(wish.path.as_bytes());
    let mode = wish.mode.as_deref().map(mode).transpose()?;
    let parents = wish.parents.unwrap_or(true);
    let files = &shared.app.files;
    let made = files.make_directory(who, &of, &wish.path, mode, parents);
    let (info, is_new) = made.await?;
    Ok(created(info, is_new))
}

fn created(info: api::FileInfo, is_new: bool) -> Response {
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    let etag = info.etag.as_deref().unwrap_or_default();
    let etag = HeaderValue::from_str(etag).ok();
    let mut response = (status, Json(info)).into_response();
    if let Some(etag) = etag.filter(|etag| !etag.is_empty()) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Records the path of a change in the audit log.
fn note(path: &[u8]) {
    audit::detail("path", short(&String::from_utf8_lossy(path)));
}

/// Parses permission bits in octal.
fn mode(text: &str) -> Result<u32> {
    let is_octal = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8).ok();
    let mode = mode.filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| Failure::invalid("`mode` must be octal, `0000` to `0777`"))
}

/// Reads the preconditions of a change.
fn condition(headers: &HeaderMap) -> Result<Condition> {
    let is_new = match all(headers, &header::IF_NONE_MATCH)?.as_deref() {
        None => false,
        Some("*") => true,
        Some(_) => return Err(Failure::invalid("`If-None-Match` of a change must be `*`")),
    };
    let matches = all(headers, &header::IF_MATCH)?;
    Ok(Condition {
        matches: matches.map(|text| tags(&text)).transpose()?,
        is_new,
    })
}

/// Returns all values of a header.
fn all(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>> {
    let mut values = Vec::new();
    for value in headers.get_all(name) {
        let invalid = |_| Failure::invalid(format!("`{name}` is not valid"));
        values.push(value.to_str().map_err(invalid)?.trim());
    }
    Ok((!values.is_empty()).then(|| values.join(",")))
}

/// Parses the tags of `If-Match`. It compares strongly, so a weak tag equals no
/// file.
fn tags(text: &str) -> Result<Tags> {
    if text == "*" {
        return Ok(Tags::Any);
    }
    let mut tags = Vec::new();
    for tag in text.split(',').map(str::trim) {
        let strong = tag.strip_prefix("W/").unwrap_or(tag);
        let inner = strong
            .strip_prefix('"')
            .and_then(|tag| tag.strip_suffix('"'));
        let inner = inner
            .ok_or_else(|| Failure::invalid("`If-Match` must be `*`, or tags in double quotes"))?;
        if strong == tag {
            tags.push(inner.to_owned());
        }
    }
    Ok(Tags::These(tags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_have_any_bytes() {
        assert_eq!(decoded("a%2Fb+c%ff"), b"a/b c\xff");
        assert_eq!(decoded("100%"), b"100%");
        assert_eq!(decoded("%zz%4"), b"%zz%4");
        assert_eq!(decoded("%C3%A4"), "ä".as_bytes());
    }

    #[test]
    fn a_mode_is_octal() {
        assert_eq!(mode("0644").unwrap(), 0o644);
        assert_eq!(mode("7").unwrap(), 0o7);
        for bad in ["", "0o644", "888", "4755", "+644", "000644", "-1"] {
            assert!(mode(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn conditions_are_parsed_strictly() {
        let of = |lines: &[(HeaderName, &'static str)]| {
            let lines = lines.iter().cloned();
            let lines = lines.map(|(name, value)| (name, HeaderValue::from_static(value)));
            condition(&lines.collect())
        };
        let found = of(&[(header::IF_MATCH, "\"a\", W/\"b\",\"c\"")]).unwrap();
        assert_eq!(
            found.matches,
            Some(Tags::These(vec!["a".into(), "c".into()]))
        );
        assert_eq!(
            of(&[(header::IF_MATCH, "*")]).unwrap().matches,
            Some(Tags::Any)
        );
        assert!(of(&[(header::IF_NONE_MATCH, "*")]).unwrap().is_new);
        for bad in ["a", "\"a", "", "\"a\",b"] {
            assert!(of(&[(header::IF_MATCH, bad)]).is_err(), "{bad}");
        }
        assert!(of(&[(header::IF_NONE_MATCH, "\"a\"")]).is_err());
    }
}
