use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Changes to a sandbox. Absent fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeSandbox {
    /// New name; null removes the name.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 100)]
    pub name: Option<Option<String>>,
    /// Pairs to set; a pair with the value null is removed. Other pairs stay as
    /// they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Option<String>>,
    /// New time at which the sandbox expires. It must be in the future, and
    /// within the maximum lifetime of the server since the creation of the
    /// sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// Reads the value of a field that may be null. An absent field is `None`, and
/// null is `Some(None)`.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_removes_a_name_and_an_absent_name_keeps_it() {
        let read = |text| serde_json::from_str::<ChangeSandbox>(text).unwrap();
        assert_eq!(read("{}").name, None);
        assert_eq!(read(r#"{"name": null}"#).name, Some(None));
        assert_eq!(read(r#"{"name": "a"}"#).name, Some(Some("a".into())));
        let removing = read(r#"{"name": null, "metadata": {"a": null}}"#);
        let text = serde_json::to_string(&removing).unwrap();
        assert_eq!(text, r#"{"name":null,"metadata":{"a":null}}"#);
    }
}
