//! Tokens that give access to one port of one sandbox in place of a key.
//!
//! ```text
//! EXPIRES.TENANT.KEY.MAC    EXPIRES: seconds since 1970
//!                           MAC: HMAC-SHA256 of kind, tenant, key, sandbox, port
//!                           and expiry, in base64
//! ```
//!
//! The request names the sandbox and the port. The server stores no tokens: a
//! token ends with its key, with its sandbox, and when it expires.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use elevo_core::{KeyId, SandboxId, TenantId};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::app::ports::port::Port;

/// The right to use a port, given by a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) tenant: TenantId,
    /// The key that created the link. It must still be valid when the token is
    /// used.
    pub(crate) key: KeyId,
    /// Seconds since 1970.
    pub(crate) expires: i64,
}

/// The use of a token. A token of one kind is not valid as the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In the address of a link.
    Link,
    /// In the cookie of a browser that opened a link.
    Cookie,
}

/// Signs and checks tokens.
pub(crate) struct Signer([u8; 32]);

impl Signer {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    pub(crate) fn token(
        &self,
        kind: Kind,
        grant: &Grant,
        sandbox: &SandboxId,
        port: Port,
    ) -> String {
        let mac = self.mac(kind, grant, sandbox, port).finalize();
        let mac = URL_SAFE_NO_PAD.encode(mac.into_bytes());
        let Grant {
            tenant,
            key,
            expires,
        } = grant;
        format!("{expires}.{tenant}.{key}.{mac}")
    }

    /// Returns the grant of a token, if it is signed for this port. Does not
    /// check the expiry.
    pub(crate) fn read(
        &self,
        kind: Kind,
        token: &str,
        sandbox: &SandboxId,
        port: Port,
    ) -> Option<Grant> {
        let mut parts = token.splitn(4, '.');
        let grant = Grant {
            expires: parts.next()?.parse().ok()?,
            tenant: tenant(parts.next()?)?,
            key: parts.next()?.parse().ok()?,
        };
        let mac = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        let expected = self.mac(kind, &grant, sandbox, port);
        // Compares in constant time.
        expected.verify_slice(&mac).is_ok().then_some(grant)
    }

    fn mac(&self, kind: Kind, grant: &Grant, sandbox: &SandboxId, port: Port) -> Hmac<Sha256> {
        let mut mac = match Hmac::<Sha256>::new_from_slice(&self.0) {
            Ok(mac) => mac,
            Err(_) => unreachable!("HMAC accepts keys of any length"),
        };
        let kind = match kind {
            Kind::Link => "link",
            Kind::Cookie => "cookie",
        };
        let Grant {
            tenant,
            key,
            expires,
        } = grant;
        // No part contains a space.
        let signed = format!("elevo port {kind} {tenant} {key} {sandbox} {port} {expires}");
        mac.update(signed.as_bytes());
        mac
    }
}

/// Reads the sixteen bytes of a tenant in hexadecimal.
fn tenant(text: &str) -> Option<TenantId> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let bytes = u128::from_str_radix(text, 16).ok()?;
    Some(TenantId::new(bytes.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use elevo_core::Id;

    use super::*;

    #[test]
    fn a_token_is_valid_for_its_kind_sandbox_and_port_only() {
        let signer = Signer::new([1; 32]);
        let [one, other] = [1, 2].map(|byte| SandboxId::from_bytes(&[byte; 16]));
        let [port, next]: [Port; 2] = ["3000", "3001"].map(|port| port.parse().unwrap());
        let grant = Grant {
            tenant: TenantId::new([0xab; 16]),
            key: KeyId::from_bytes(&[3; 16]),
            expires: 1_800_000_000,
        };
        let token = signer.token(Kind::Link, &grant, &one, port);
        assert!(
            token
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
        );
        assert_eq!(signer.read(Kind::Link, &token, &one, port), Some(grant));
        assert_eq!(signer.read(Kind::Cookie, &token, &one, port), None);
        assert_eq!(signer.read(Kind::Link, &token, &other, port), None);
        assert_eq!(signer.read(Kind::Link, &token, &one, next), None);
        let foreign = Signer::new([2; 32]);
        assert_eq!(foreign.read(Kind::Link, &token, &one, port), None);
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'4' { b'5' } else { b'4' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(
                signer.read(Kind::Link, &forged, &one, port),
                None,
                "{forged}"
            );
        }
        for wrong in ["", "1", "1.2.3.4", &token[..token.len() - 2]] {
            assert_eq!(signer.read(Kind::Link, wrong, &one, port), None, "{wrong}");
        }
    }
}
