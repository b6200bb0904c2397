"""Signatures of webhook deliveries."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from workspace_sdk.errors import WebhookSignatureError
from workspace_sdk.webhooks import _sign, verify_webhook

SENT_AT = 1_614_265_330
BODY = (
    b'{"id": 7, "kind": "project.landed", "timestamp": "2026-01-01T00:00:00Z", "data": {"project": "prj-1", "step": 2}}'
)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def headers_of(secret: str, body: bytes = BODY) -> dict[str, str]:
    signature = _sign(secret, b"evt-7.%d." % SENT_AT + body)
    return {"Webhook-Id": "evt-7", "webhook-timestamp": str(SENT_AT), "webhook-signature": f"v1,{signature}"}


def test_signs_as_the_example_of_standard_webhooks() -> None:
    message = b'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}'
    assert _sign(SECRET, message) == "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_without_the_prefix_or_with_a_short_key_is_used_as_it_is() -> None:
    for secret in ("plain", "whsec_c2hvcnQ=", "whsec_!"):
        expected = base64.b64encode(hmac.new(secret.encode(), b"m", hashlib.sha256).digest()).decode()
        assert _sign(secret, b"m") == expected


@pytest.mark.parametrize("body", [BODY, BODY.decode()])
def test_a_delivery_is_its_event(body: bytes | str) -> None:
    event = verify_webhook(body, headers_of(SECRET), SECRET, now=SENT_AT + 299)
    assert event.kind == "project.landed"
    assert event.data.step == 2


def test_one_of_several_signatures_is_enough() -> None:
    headers = headers_of(SECRET)
    headers["webhook-signature"] = f"v1a,other v1,AAAA {headers['webhook-signature']}"
    assert verify_webhook(BODY, headers, SECRET, now=SENT_AT).id == 7


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"webhook-signature": "v1,AAAA"}, "no signature"),
        ({"webhook-signature": "v1,ä"}, "no signature"),
        ({"webhook-timestamp": str(SENT_AT + 1)}, "no signature"),
        ({"webhook-timestamp": "soon"}, "not a number"),
        ({"webhook-timestamp": "²"}, "not a number"),
        ({"webhook-timestamp": "9" * 5000}, "not a number"),
        ({"Webhook-Id": "evt-8"}, "no signature"),
    ],
)
def test_a_changed_delivery_is_refused(change: dict[str, str], reason: str) -> None:
    with pytest.raises(WebhookSignatureError, match=reason):
        verify_webhook(BODY, {**headers_of(SECRET), **change}, SECRET, now=SENT_AT)


def test_other_bodies_secrets_and_times_are_refused() -> None:
    with pytest.raises(WebhookSignatureError, match="no signature"):
        verify_webhook(BODY + b" ", headers_of(SECRET), SECRET, now=SENT_AT)
    with pytest.raises(WebhookSignatureError, match="no signature"):
        verify_webhook(BODY, headers_of("another"), SECRET, now=SENT_AT)
    for now in (SENT_AT - 301, SENT_AT + 301):
        with pytest.raises(WebhookSignatureError, match="within 300 s"):
            verify_webhook(BODY, headers_of(SECRET), SECRET, now=now)
    with pytest.raises(WebhookSignatureError, match="webhook-id"):
        verify_webhook(BODY, {}, SECRET, now=SENT_AT)
