//! Signatures of webhook deliveries, by HMAC-SHA256.
//!
//! `webhook-signature` follows Standard Webhooks
//! (<https://www.standardwebhooks.com>): `v1,` and the base64 of the HMAC over
//! `id.timestamp.body`, one for each secret, separated by spaces.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The prefix of a secret whose rest is the key in base64.
const PREFIX: &str = "whsec_";

/// Maximum bytes of a secret.
const MAX_SECRET: usize = 256;

/// Returns a secret with the prefix, for a random key.
pub(crate) fn new_secret(key: [u8; 32]) -> String {
    format!("{PREFIX}{}", STANDARD.encode(key))
}

/// Checks a secret of a client. Returns the reason if the secret is not valid.
pub(crate) fn check_secret(secret: &str) -> Result<(), &'static str> {
    if secret.is_empty() || secret.len() > MAX_SECRET || secret.contains('\0') {
        return Err("a secret has 1 to 256 bytes, without a NUL byte");
    }
    match decoded(secret) {
        None if secret.starts_with(PREFIX) => {
            Err("`whsec_` must be followed by 24 to 64 bytes in base64")
        }
        _ => Ok(()),
    }
}

/// Returns the bytes of a secret with the prefix.
fn decoded(secret: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
    (24..=64).contains(&bytes.len()).then_some(bytes)
}

/// Returns the HMAC of a message. The key is the decoded secret if the secret
/// has the prefix, else the bytes of the secret.
fn hmac(secret: &str, parts: &[&[u8]]) -> Vec<u8> {
    let key = decoded(secret).unwrap_or_else(|| secret.as_bytes().to_vec());
    let mut mac = match Hmac::<Sha256>::new_from_slice(&key) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC accepts keys of any length"),
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

/// Returns the value of `webhook-signature`: a signature by each secret.
pub(crate) fn standard(secrets: &[String], id: &str, seconds: i64, body: &[u8]) -> String {
    let before = format!("{id}.{seconds}.");
    let sign = |secret: &String| {
        let signature = hmac(secret, &[before.as_bytes(), body]);
        format!("v1,{}", STANDARD.encode(signature))
    };
    let signatures: Vec<_> = secrets.iter().map(sign).collect();
    signatures.join(" ")
}

/// Returns the value of `X-Webhook-Signature`: `sha256=` and the HMAC of the body
/// in hexadecimal.
pub(crate) fn of_body(secret: &str, body: &[u8]) -> String {
    let digits = hmac(secret, &[body]);
    let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 4231.
    #[test]
    fn signs_bodies_as_rfc_4231_does() {
        let signed = of_body("Jefe", b"what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(signed, format!("sha256={expected}"));
    }

    /// The example in the libraries of Standard Webhooks.
    #[test]
    fn signs_as_the_example_of_standard_webhooks() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned();
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", br#"{"test": 2432232314}"#);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let signed = standard(std::slice::from_ref(&secret), id, 1_614_265_330, body);
        assert_eq!(signed, expected);
        let both = standard(&[secret, "plain".into()], id, 1_614_265_330, body);
        let (first, second) = both.split_once(' ').unwrap();
        assert_eq!(first, expected);
        assert!(second.starts_with("v1,"), "{both}");
    }

    #[test]
    fn a_secret_with_the_prefix_must_be_a_key_in_base64() {
        assert!(check_secret(&new_secret([7; 32])).is_ok());
        assert!(check_secret("plain").is_ok());
        for wrong in ["", "whsec_", "whsec_!", "whsec_c2hvcnQ=", "a\0b"] {
            assert!(check_secret(wrong).is_err(), "{wrong:?}");
        }
        assert!(check_secret(&"x".repeat(257)).is_err());
    }
}
