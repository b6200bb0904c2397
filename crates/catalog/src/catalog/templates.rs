use async_trait::async_trait;

use crate::error::Result;
use crate::records::Template;

/// Templates, which all tenants share.
#[async_trait]
pub trait Templates {
    /// Adds a template, or replaces the one with that name. `LimitReached` if there
    /// are [`MAX_LISTED`](crate::MAX_LISTED) others.
    async fn put_template(&self, template: &Template) -> Result<()>;

    /// Returns a template by name.
    async fn template(&self, name: &str) -> Result<Option<Template>>;

    /// Returns all templates, by name in byte order.
    async fn templates(&self) -> Result<Vec<Template>>;

    /// Deletes a template; returns `false` if there is none.
    async fn remove_template(&self, name: &str) -> Result<bool>;
}
