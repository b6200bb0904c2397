//! Checks of webhooks.

use crate::catalog::*;
use crate::conformance::assertions::assert_exists;
use crate::conformance::backend::Backend;
use crate::conformance::samples::{AGENT, ALICE, BOB, at, furnished, id_of};
use crate::error::{Error, Kind};
use crate::limits::MAX_WEBHOOKS;
use crate::records::{EventKind, Webhook};

pub(crate) fn webhook(id: &str) -> Webhook {
    Webhook {
        id: id_of(id),
        tenant: Some(ALICE),
        agent: None,
        url: "https://example.com/hook?a='b'".into(),
        secret: "s3cret \u{1f511}".into(),
        kinds: Vec::new(),
        created: at(50),
    }
}

/// The webhook is read back with all its fields. Also checks the maximum number
/// of webhooks of a tenant.
pub async fn a_webhook_is_read_back_as_added(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let full = Webhook {
        agent: Some(id_of(AGENT)),
        kinds: vec![EventKind::SandboxError, EventKind::AgentConnected],
        ..webhook("a")
    };
    let server = Webhook {
        tenant: None,
        created: at(60),
        ..webhook("b")
    };
    for one in [&full, &server] {
        catalog.add_webhook(one).await.expect("added");
    }
    assert_exists(catalog.add_webhook(&full).await, Kind::Webhook);
    assert_eq!(
        catalog
            .webhook(Some(ALICE), &id_of("a"))
            .await
            .expect("webhook"),
        Some(full.clone())
    );
    assert_eq!(
        catalog
            .webhook(Some(ALICE), &id_of("x"))
            .await
            .expect("webhook"),
        None
    );
    let of_all = catalog.webhooks_of_all_tenants().await.expect("webhooks");
    assert_eq!(of_all, [full.clone(), server.clone()]);
    let of_server = catalog.webhooks(None).await.expect("webhooks");
    assert_eq!(of_server, std::slice::from_ref(&server));
    let of_alice = catalog.webhooks(Some(ALICE)).await.expect("webhooks");
    assert_eq!(of_alice, std::slice::from_ref(&full));
    assert_eq!(catalog.webhooks(Some(BOB)).await.expect("webhooks"), []);
    for n in 1..MAX_WEBHOOKS {
        let added = catalog.add_webhook(&webhook(&format!("n{n}"))).await;
        added.expect("it is below the limit");
    }
    let beyond = catalog.add_webhook(&webhook("beyond")).await;
    assert!(
        matches!(beyond, Err(Error::LimitReached { .. })),
        "{beyond:?}"
    );
    let changed = catalog
        .set_webhook_secret(Some(ALICE), &id_of("a"), "another")
        .await;
    assert!(changed.expect("changed"));
    let found = catalog
        .webhook(Some(ALICE), &id_of("a"))
        .await
        .expect("webhook");
    let changed = Webhook {
        secret: "another".into(),
        ..full
    };
    assert_eq!(found, Some(changed));
    assert!(
        catalog
            .remove_webhook(Some(ALICE), &id_of("a"))
            .await
            .expect("removed")
    );
    assert!(
        !catalog
            .remove_webhook(Some(ALICE), &id_of("a"))
            .await
            .expect("gone")
    );
    let changed = catalog
        .set_webhook_secret(Some(ALICE), &id_of("a"), "another")
        .await;
    assert!(!changed.expect("gone"));
}
