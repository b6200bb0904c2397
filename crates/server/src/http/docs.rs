//! The documentation at `/docs`, from the files that a release installs. It needs
//! no key, and no network.

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use elevo_core::ErrorCode;
use tower_http::services::{ServeDir, ServeFile};

use crate::config::Config;
use crate::failure::Failure;
use crate::http::answer::ApiError;
use crate::http::shared::Shared;
use crate::platform::installed;

/// Adds `/docs` and the pages below it.
pub(super) fn add_to(router: Router<Shared>, config: &Config) -> Router<Shared> {
    let directory = installed::share_directory(config).join("docs");
    if !directory.is_dir() {
        return router
            .route("/docs", get(missing))
            .route("/docs/", get(missing));
    }
    let missing_page = ServeFile::new(directory.join("404.html"));
    let pages = ServeDir::new(&directory).not_found_service(missing_page);
    router
        // Links in the pages are relative to `/docs/`.
        .route("/docs", get(async || Redirect::permanent("/docs/")))
        .nest_service("/docs/", pages)
}

async fn missing() -> ApiError {
    let message = "this server has no documentation";
    let failure = Failure::new(ErrorCode::NotFound, message);
    let remediation = "Install a release, or set SHARE_DIR to the directory that has `docs`.";
    failure.remediation(remediation).into()
}
