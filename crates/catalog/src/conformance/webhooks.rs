//! Checks of webhooks.

use crate::catalog::*;
use crate::conformance::assertions::assert_exists;
use crate::conformance::backend::Backend;
use crate::conformance::samples::{AGENT, ALICE, BOB, at, furnished, id_of};
use crate::error::{Error, Kind};
use crate::limits::MAX_WEBHOOKS;
use crate::records::{EventKind, Webhook, WebhookChange};

pub(crate) fn webhook(id: &str) -> Webhook {
    Webhook {
        id: id_of(id),
        tenant: Some(ALICE),
        agent: None,
        url: "https://example.com/hook?a='b'".into(),
        secret: "s3cret \u{1f511}".into(),
        previous_secret: String::new(),
        previous_until: None,
        kinds: Vec::new(),
        created: at(50),
    }
}

/// The webhook is read back with all its fields. Also checks the maximum number
/// of webhooks of a tenant.
pub async fn a_webhook_is_read_back_as_added(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let full = Webhook {
        previous_secret: "older".into(),
        previous_until: Some(at(70)),
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
        .seal_webhook_secrets(Some(ALICE), &id_of("a"), "another", "older still")
        .await;
    assert!(changed.expect("changed"));
    let found = catalog
        .webhook(Some(ALICE), &id_of("a"))
        .await
        .expect("webhook");
    let changed = Webhook {
        secret: "another".into(),
        previous_secret: "older still".into(),
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
        .seal_webhook_secrets(Some(ALICE), &id_of("a"), "another", "older still")
        .await;
    assert!(!changed.expect("gone"));
}

/// A change keeps the absent fields, and does not reach a webhook of another
/// owner.
pub async fn a_webhook_is_changed(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    catalog.add_webhook(&webhook("a")).await.expect("added");
    let change = async |owner, change: WebhookChange| {
        let changed = catalog.change_webhook(owner, &id_of("a"), &change).await;
        changed.expect("changed")
    };
    let kinds = vec![EventKind::ReviewOpened];
    let other = WebhookChange {
        url: Some("https://example.org/".into()),
        kinds: None,
    };
    assert_eq!(change(Some(BOB), other.clone()).await, None);
    let changed = change(Some(ALICE), other).await;
    let expected = Webhook {
        url: "https://example.org/".into(),
        ..webhook("a")
    };
    assert_eq!(changed.as_ref(), Some(&expected));
    let other = WebhookChange {
        url: None,
        kinds: Some(kinds.clone()),
    };
    let changed = change(Some(ALICE), other).await;
    let expected = Webhook { kinds, ..expected };
    assert_eq!(changed.as_ref(), Some(&expected));
    let found = catalog.webhook(Some(ALICE), &id_of("a")).await;
    assert_eq!(found.expect("webhook"), Some(expected));
}

/// A rotation keeps the present secret until its time has passed.
pub async fn a_rotation_keeps_the_previous_secret_for_a_time(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    catalog.add_webhook(&webhook("a")).await.expect("added");
    let unsigned = Webhook {
        secret: String::new(),
        ..webhook("b")
    };
    catalog.add_webhook(&unsigned).await.expect("added");
    let rotate = async |owner, id: &str, secret: &str, until| {
        let id = id_of(id);
        let rotated = catalog.rotate_webhook(owner, &id, secret, until).await;
        let rotated = rotated.expect("rotated");
        rotated.map(|it| (it.secret, it.previous_secret, it.previous_until))
    };
    let own = Some(ALICE);
    assert_eq!(rotate(Some(BOB), "a", "x", Some(at(100))).await, None);
    let expected = ("two".into(), webhook("a").secret, Some(at(100)));
    assert_eq!(rotate(own, "a", "two", Some(at(100))).await, Some(expected));
    let expected = ("three".into(), "two".into(), Some(at(200)));
    let rotated = rotate(own, "a", "three", Some(at(200))).await;
    assert_eq!(rotated, Some(expected));
    let forget = async |now| catalog.forget_webhook_secrets(at(now)).await.expect("done");
    assert_eq!(forget(199).await, 0);
    assert_eq!(forget(200).await, 1);
    let found = catalog.webhook(own, &id_of("a")).await.expect("webhook");
    let expected = Webhook {
        secret: "three".into(),
        ..webhook("a")
    };
    assert_eq!(found, Some(expected));
    let expected = Some(("four".into(), String::new(), None));
    assert_eq!(rotate(own, "a", "four", None).await, expected);
    let expected = Some(("one".into(), String::new(), None));
    assert_eq!(rotate(own, "b", "one", Some(at(300))).await, expected);
}
