//! Checks of untrusted text.

use elevo_core::Timestamp;

use crate::catalog::*;
use crate::conformance::assertions::assert_refused;
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    ALICE, NO_LIMITS, add, agent, at, furnished, get, id_of, key, list, of_tenant, sandbox, tenant,
};
use crate::limits::{MAX_NAME_BYTES, MAX_SPEC_BYTES, MAX_TEXT_BYTES, MAX_WORDS};
use crate::query::SandboxQuery;
use crate::records::{Sandbox, Template};

pub(crate) const HOSTILE: [&str; 12] = [
    "'; DROP TABLE sandboxes; --",
    "\" OR \"\"=\"",
    "%_\\",
    "?1 :name @p $1",
    "NULL",
    " ",
    "line\r\nfeed\ttab",
    "\u{1}\u{7f}\u{85}\u{200b}\u{202e}",
    "e\u{301} is not é",
    "🦀\u{10ffff}",
    "{\"json\": [",
    "/../../etc/passwd",
];

/// Checks promise 9 for names and other text.
pub async fn any_text_is_read_back_unchanged(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let longest = "x".repeat(MAX_NAME_BYTES);
    let texts: Vec<&str> = HOSTILE.into_iter().chain([longest.as_str()]).collect();
    for (n, text) in texts.iter().copied().enumerate() {
        let mut one = agent(ALICE, &n.to_string());
        one.name = text.into();
        catalog.add_agent(&one).await.expect("a new agent");
        let found = catalog.agent(ALICE, &one.id).await.expect("agent");
        assert_eq!(found.as_ref(), Some(&one));
        let mut bound = key(ALICE, &n.to_string(), Some(&one.id));
        bound.name = text.into();
        (bound.hash, bound.scopes) = ([n as u8; 32], vec![text.into()]);
        catalog.add_key(&bound).await.expect("a new key");
        let found = catalog.key_of_any_tenant(&bound.hash).await.expect("key");
        assert_eq!(found.as_ref(), Some(&bound));
        let one = Sandbox {
            agent: bound.agent,
            key: bound.id,
            name: Some(text.into()),
            reason: Some(text.into()),
            template: text.into(),
            container: Some(text.into()),
            spec: text.into(),
            ..sandbox(ALICE, &n.to_string())
        };
        add(&catalog, &one).await;
        assert_eq!(get(&catalog, &one.id).await, Some(one));
        catalog.set_setting(text, text).await.expect("set");
        let value = catalog.setting(text).await.expect("setting");
        assert_eq!(value.as_deref(), Some(text));
    }
    for (n, text) in texts.iter().enumerate() {
        let query = SandboxQuery {
            agent: Some(id_of(&n.to_string())),
            name_prefix: Some((*text).into()),
            ..of_tenant(ALICE)
        };
        assert_eq!(list(&catalog, &query).await, [n.to_string()]);
    }
    let all = list(&catalog, &of_tenant(ALICE)).await;
    assert_eq!(all.len(), texts.len());
}

/// Checks names, other text, a specification, a time and a number of tags out
/// of bounds. Nothing is added.
pub async fn text_out_of_bounds_is_refused(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    for bad in ["", "a\0b", &long] {
        let named = tenant(elevo_core::TenantId::new([3; 16]), bad);
        assert_refused(catalog.add_tenant(&named).await);
        let mut named = agent(ALICE, "new");
        named.name = bad.into();
        assert_refused(catalog.add_agent(&named).await);
        let mut named = key(ALICE, "new", None);
        named.scopes = vec![bad.into()];
        assert_refused(catalog.add_key(&named).await);
        let mut one = sandbox(ALICE, "new");
        one.name = Some(bad.into());
        assert_refused(catalog.add_sandbox(&one, NO_LIMITS).await);
        assert_refused(catalog.set_setting(bad, "").await);
    }
    let mut one = sandbox(ALICE, "new");
    one.container = Some("x".repeat(MAX_TEXT_BYTES + 1));
    assert_refused(catalog.add_sandbox(&one, NO_LIMITS).await);
    let mut one = sandbox(ALICE, "new");
    one.spec = "x".repeat(MAX_SPEC_BYTES).into();
    assert_refused(catalog.add_sandbox(&one, NO_LIMITS).await);
    let mut one = sandbox(ALICE, "new");
    one.expires = Timestamp::new(i64::MAX, 0).expect("a time");
    assert_refused(catalog.add_sandbox(&one, NO_LIMITS).await);
    let tagged = Template {
        name: "new".into(),
        image: "x".into(),
        description: None,
        tags: vec!["x".into(); MAX_WORDS + 1],
        size: 1,
        writable_root: false,
        created: at(1),
    };
    assert_refused(catalog.put_template(&tagged).await);
    assert_eq!(get(&catalog, "new").await, None);
    assert!(catalog.templates().await.expect("templates").is_empty());
    assert_eq!(catalog.tenants().await.expect("tenants").len(), 2);
    assert_eq!(catalog.keys(ALICE).await.expect("keys").len(), 3);
}

/// Some of the texts cannot be stored, so no record can have them.
pub async fn unknown_text_finds_nothing(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add(&catalog, &sandbox(ALICE, "a")).await;
    let long = "a".repeat(1 << 20);
    for unknown in ["", "A", "a\0", "a\0b", "%", " a", "a ", &long] {
        assert_eq!(catalog.setting(unknown).await.expect("setting"), None);
        assert_eq!(catalog.template(unknown).await.expect("template"), None);
    }
    assert!(get(&catalog, "a").await.is_some());
}
