//! Checks of settings.

use crate::catalog::*;
use crate::conformance::backend::Backend;

/// A later value replaces the earlier one.
pub async fn a_setting_is_set_and_removed(backend: &impl Backend) {
    let catalog = backend.open().await;
    let value = async || catalog.setting("installation").await.expect("setting");
    assert_eq!(value().await, None);
    for text in ["one", "", "two"] {
        let set = catalog.set_setting("installation", text).await;
        set.expect("set");
        assert_eq!(value().await.as_deref(), Some(text));
    }
    for is_there in [true, false] {
        let removed = catalog.remove_setting("installation").await;
        assert_eq!(removed.expect("remove"), is_there);
    }
    assert_eq!(value().await, None);
    catalog.check().await.expect("the catalog works");
}
