use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An image that sandboxes start from.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Its name.
    #[schema(example = "python:3.11")]
    pub name: String,
    /// The image.
    pub image: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The size of the image in bytes.
    pub size: u64,
    /// Whether the root file system can be written to.
    pub writable_root: bool,
    /// When it was added.
    pub created_at: String,
}

/// All templates.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TemplateList {
    /// Sorted by name.
    pub items: Vec<Template>,
}

/// A wish for a template.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddTemplate {
    /// Its name.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// The image; the name by default. Pulled if the engine does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub image: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub tags: Vec<String>,
    /// Whether sandboxes may write to the root file system.
    #[serde(default)]
    pub writable_root: bool,
}

/// An event while an image is pulled, of a request that accepts
/// `text/event-stream`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PullEvent {
    /// How far it is.
    Progress {
        /// The layer.
        layer: String,
        /// What is being done.
        status: String,
        /// Bytes done.
        current: u64,
        /// Bytes in all, if known.
        total: u64,
    },
    /// It is there; the last event.
    Done {
        /// The template.
        template: Template,
    },
    /// It failed; the last event.
    Error {
        /// Why.
        error: crate::ErrorBody,
    },
}
