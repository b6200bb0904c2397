use async_trait::async_trait;

use crate::error::Result;

/// Settings of the whole catalog: names with values.
#[async_trait]
pub trait Settings {
    /// Returns a setting by name.
    async fn setting(&self, name: &str) -> Result<Option<String>>;

    /// Sets a setting, in place of an earlier value.
    async fn set_setting(&self, name: &str, value: &str) -> Result<()>;

    /// Deletes a setting; returns `false` if it was not set.
    async fn remove_setting(&self, name: &str) -> Result<bool>;
}
