use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An image that sandboxes start from.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Name of the template.
    #[schema(example = "python:3.11")]
    pub name: String,
    /// Reference of the container image.
    pub image: String,
    /// Purpose of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Search terms.
    pub tags: Vec<String>,
    /// The size of the image in bytes.
    pub size: u64,
    /// Whether sandboxes may write to the root file system.
    pub writable_root: bool,
    /// When the template was added.
    pub created_at: String,
}

/// A page of templates.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TemplatePage {
    /// The templates, ordered by name.
    pub items: Vec<Template>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Request to add a template.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddTemplate {
    /// Name of the template.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// Reference of the container image; by default the name of the template. The
    /// image is pulled if the container engine does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub image: Option<String>,
    /// Purpose of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// Search terms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub tags: Vec<String>,
    /// Whether sandboxes may write to the root file system.
    #[serde(default)]
    pub writable_root: bool,
}

/// An event about the pull of an image, for requests that accept
/// `text/event-stream`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PullEvent {
    /// Progress of one layer.
    Progress {
        /// Id of the layer.
        layer: String,
        /// Current operation.
        status: String,
        /// Bytes processed.
        current: u64,
        /// Total bytes, or 0 if unknown.
        total: u64,
    },
    /// The template was added; the last event.
    Done {
        /// The new template.
        template: Template,
    },
    /// The operation failed; the last event.
    Error {
        /// Why the operation failed.
        error: crate::ErrorBody,
    },
}
