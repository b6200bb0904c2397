//! Requests about files of sandboxes, workspaces, projects and snapshots.

use elevo_api as api;
use reqwest::{Method, RequestBuilder, Response};

use crate::client::call::Call;
use crate::client::error::Result;
use crate::client::names::{Noun, find};
use crate::client::pages::{self, Page};
use crate::client::project_state::resolve_some;
use crate::errors::FileProblem;
use crate::options::place::{FilePlace, PlaceKind};

/// Entries per request.
const PAGE: u32 = 1000;

/// The files of one resource.
#[derive(Debug)]
pub(crate) struct Files {
    /// The path of the resource in the API.
    base: [String; 4],
    /// The version of a project.
    snapshot: Option<String>,
    /// Whether files can be changed.
    is_writable: bool,
}

/// Finds the resource of a place.
pub(crate) fn find_files(call: &Call, place: &FilePlace) -> anyhow::Result<Files> {
    let (kind, name, snapshot) = match &place.of {
        PlaceKind::Sandbox => ("sandboxes", find(call, Noun::Sandbox, &place.name)?, None),
        PlaceKind::Workspace => (
            "workspaces",
            find(call, Noun::Workspace, &place.name)?,
            None,
        ),
        PlaceKind::Project { revision } => {
            let project = find(call, Noun::Project, &place.name)?;
            // Resolved once, so that all requests are about one state even if
            // the head moves.
            let head = "head".to_owned();
            let at = resolve_some(call, &project, Some(revision.as_ref().unwrap_or(&head)))?;
            ("projects", project, at)
        }
        PlaceKind::Snapshot => ("snapshots", place.name.clone(), None),
    };
    let base = ["api", "v1", kind, &name].map(str::to_owned);
    let is_writable = matches!(place.of, PlaceKind::Sandbox | PlaceKind::Workspace);
    Ok(Files {
        base,
        snapshot,
        is_writable,
    })
}

/// Like [`find_files`], for a change of the files.
pub(crate) fn find_writable(call: &Call, place: &FilePlace) -> anyhow::Result<Files> {
    let files = find_files(call, place)?;
    match files.is_writable {
        true => Ok(files),
        false => Err(FileProblem::ReadOnlyPlace(place.name.clone()).into()),
    }
}

impl Files {
    fn below(&self, below: &[&'static str]) -> Vec<&str> {
        let base = self.base.iter().map(String::as_str);
        base.chain(["files"]).chain(below.iter().copied()).collect()
    }

    /// Creates a request about one file.
    pub(crate) fn request(&self, call: &Call, method: Method, path: &str) -> RequestBuilder {
        let request = call.client.request(method, &self.below(&[]));
        request.query(&self.query(path))
    }

    fn query(&self, path: &str) -> Vec<(&'static str, String)> {
        let mut query = vec![("path", path.to_owned())];
        query.extend(self.snapshot.clone().map(|at| ("snapshot", at)));
        query
    }

    /// Opens a file.
    pub(crate) async fn open(&self, call: &Call, path: &str) -> Result<Response> {
        call.client
            .send(self.request(call, Method::GET, path))
            .await
    }

    /// Creates a request for the changes of files in a directory.
    pub(crate) fn watch(&self, call: &Call, path: &str) -> RequestBuilder {
        let request = call.client.request(Method::GET, &self.below(&["watch"]));
        request.query(&self.query(path))
    }

    /// Sends a request that changes a file other than its content.
    pub(crate) async fn change(
        &self,
        call: &Call,
        what: &'static str,
        body: &(impl serde::Serialize + Sync),
    ) -> Result<api::FileInfo> {
        call.client.post(&self.below(&[what]), body).await
    }

    /// Lists a directory, with everything below it if `is_recursive`, and passes
    /// each entry to `take`.
    pub(crate) fn walk(
        &self,
        call: &mut Call,
        path: &str,
        is_recursive: bool,
        mut take: impl FnMut(&mut Call, &api::FileInfo) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut open = vec![Open::Page(path.to_owned(), None)];
        while let Some(next) = open.pop() {
            match next {
                Open::Entry(entry) => {
                    take(call, &entry)?;
                    if is_recursive && entry.kind == api::FileKind::Directory {
                        open.push(Open::Page(entry.path, None));
                    }
                }
                Open::Page(path, cursor) => {
                    let list = self.below(&["list"]);
                    let query = self.query(&path);
                    let page = pages::page(&call.client, &list, &query, cursor.as_deref(), PAGE);
                    let page: Page<api::FileInfo> = call.watch("listing", page)?;
                    open.extend(page.next.map(|next| Open::Page(path, Some(next))));
                    open.extend(page.items.into_iter().rev().map(Open::Entry));
                }
            }
        }
        Ok(())
    }
}

/// Work that is still to do; at most one page of entries per directory level.
enum Open {
    Entry(api::FileInfo),
    /// A directory, from the beginning or after a cursor.
    Page(String, Option<String>),
}
