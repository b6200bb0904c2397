//! Checks of templates.

use crate::catalog::*;
use crate::conformance::assertions::assert_refused;
use crate::conformance::backend::Backend;
use crate::conformance::samples::at;
use crate::records::Template;

/// Templates are listed by name.
pub async fn a_template_is_replaced_and_removed(backend: &impl Backend) {
    let catalog = backend.open().await;
    let first = Template {
        name: "b".into(),
        image: "docker.io/library/debian:12".into(),
        description: Some("words".into()),
        tags: vec!["one".into(), "two".into()],
        size: i64::MAX as u64,
        writable_root: true,
        created: at(1),
    };
    let second = Template {
        description: None,
        tags: vec![],
        size: 0,
        writable_root: false,
        ..first.clone()
    };
    let other = Template {
        name: "a".into(),
        ..first.clone()
    };
    for template in [&first, &second, &other] {
        catalog.put_template(template).await.expect("put");
        let found = catalog.template(&template.name).await.expect("template");
        assert_eq!(found.as_ref(), Some(template));
    }
    let all = catalog.templates().await.expect("templates");
    assert_eq!(all, [other, second.clone()]);
    assert!(catalog.remove_template("a").await.expect("remove"));
    assert!(!catalog.remove_template("a").await.expect("remove"));
    let all = catalog.templates().await.expect("templates");
    assert_eq!(all, [second]);
    let mut large = first;
    large.size = u64::MAX;
    assert_refused(catalog.put_template(&large).await);
}
