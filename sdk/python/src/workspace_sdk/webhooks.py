"""Checks the signatures of webhook deliveries, as Standard Webhooks describe them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping

from ._errors import WebhookSignatureError
from ._lazy import models

__all__ = ["verify_webhook"]


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str,
    *,
    tolerance: float = 300.0,
    now: float | None = None,
) -> models.Event:
    """Returns the event of a delivery.

    `body` is the body exactly as it arrived. Raises `WebhookSignatureError` if no signature was made with the
    secret, or if the delivery is older or newer than `tolerance` seconds.
    """
    raw = body.encode() if isinstance(body, str) else body
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        identity, timestamp, signatures = (
            lower[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")
        )
    except KeyError as missing:
        raise WebhookSignatureError(f"the delivery has no header {missing}") from None
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 15):
        raise WebhookSignatureError("the header `webhook-timestamp` is not a number of seconds")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise WebhookSignatureError(f"the delivery was not sent within {tolerance:g} s of now")
    expected = _sign(secret, f"{identity}.{timestamp}.".encode() + raw)
    given = [part.removeprefix("v1,") for part in signatures.split() if part.startswith("v1,")]
    if not any(hmac.compare_digest(expected.encode(), one.encode()) for one in given):
        raise WebhookSignatureError("no signature of the delivery was made with this secret")
    return models.Event.model_validate_json(raw)


def _sign(secret: str, message: bytes) -> str:
    """Returns a signature in base64."""
    return base64.b64encode(hmac.new(_key(secret), message, hashlib.sha256).digest()).decode()


def _key(secret: str) -> bytes:
    """Returns the key of a secret: the rest after `whsec_` in base64, else the bytes of the secret."""
    if secret.startswith("whsec_"):
        try:
            decoded = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            return secret.encode()
        if 24 <= len(decoded) <= 64:
            return decoded
    return secret.encode()
