//! Tickets for streams, for clients that cannot send a key: a page in a browser
//! cannot set the headers of a WebSocket or of an `EventSource`.
//!
//! Tickets are in memory only. A restart of the server invalidates them, and the
//! client requests another one.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use elevo_core::{ErrorCode, KeyId, TenantId, Timestamp};
use parking_lot::Mutex;

use crate::app::access::principal::Principal;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// Time for which a ticket is valid.
const LIFETIME: Duration = Duration::from_secs(30);

/// Maximum number of unused tickets of a tenant.
const MAX_TICKETS: usize = 100;

/// The right to open one stream once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) tenant: TenantId,
    /// The key that created the ticket. It must still be valid when the ticket
    /// is used.
    pub(crate) key: KeyId,
    /// The path of the stream, as it is in the request.
    pub(crate) path: String,
    pub(crate) expires: Timestamp,
}

/// The unused tickets, by the hash of their secret. A lookup by hash takes the
/// same time however much of a guessed secret is right.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<HashMap<[u8; 32], Ticket>>);

impl Tickets {
    /// Creates a ticket for the stream at a path. Returns its secret and its
    /// expiry. The rights of the principal are checked when the ticket is used.
    pub(crate) fn create(&self, who: &Principal, path: &str) -> Result<(String, Timestamp)> {
        let expires = clock::after(clock::now(), LIFETIME);
        let ticket = Ticket {
            tenant: who.tenant,
            key: who.key.clone(),
            path: path.to_owned(),
            expires,
        };
        Ok((self.add(ticket)?, expires))
    }

    /// Adds a ticket and returns its secret. Fails if the tenant has too many
    /// unused tickets.
    fn add(&self, ticket: Ticket) -> Result<String> {
        let now = clock::now();
        let mut tickets = self.0.lock();
        tickets.retain(|_, ticket| ticket.expires > now);
        let of_tenant = tickets.values().filter(|one| one.tenant == ticket.tenant);
        if of_tenant.count() >= MAX_TICKETS {
            let message = format!("this tenant has {MAX_TICKETS} unused tickets");
            let wait = LIFETIME.as_secs() as u32;
            return Err(Failure::new(ErrorCode::RateLimited, message).retry_after(wait));
        }
        let secret = URL_SAFE_NO_PAD.encode(clock::random::<32>());
        tickets.insert(hash(&secret), ticket);
        Ok(secret)
    }

    /// Removes a ticket, which is then used up. Fails if it is unknown, used or
    /// expired, or if it is for another path.
    pub(crate) fn take(&self, secret: &str, path: &str) -> Result<Ticket> {
        let ticket = self.0.lock().remove(&hash(secret));
        let valid = ticket.filter(|ticket| ticket.expires > clock::now());
        let refused = |message: &str| {
            Failure::new(ErrorCode::Unauthorized, message)
                .remediation("Request another ticket, for the path of this stream.")
        };
        let unknown = || refused("this ticket is not known, was used, or has expired");
        let valid = valid.ok_or_else(unknown)?;
        match valid.path == path {
            true => Ok(valid),
            false => Err(refused("this ticket is for another path")),
        }
    }
}

fn hash(secret: &str) -> [u8; 32] {
    blake3::derive_key("elevo server 2026-11-18 stream ticket", secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use elevo_core::Id;

    use super::*;

    const PATH: &str = "/api/v1/events";

    fn ticket(tenant: u8, lifetime: Duration) -> Ticket {
        Ticket {
            tenant: TenantId::new([tenant; 16]),
            key: KeyId::from_bytes(&[1; 16]),
            path: PATH.into(),
            expires: clock::after(clock::now(), lifetime),
        }
    }

    #[test]
    fn a_ticket_is_valid_once_and_until_it_expires() {
        let tickets = Tickets::default();
        let one = ticket(1, LIFETIME);
        let secret = tickets.add(one.clone()).unwrap();
        assert_eq!(tickets.take(&secret, PATH).unwrap(), one);
        assert_eq!(
            tickets.take(&secret, PATH).unwrap_err().code,
            ErrorCode::Unauthorized
        );
        let expired = tickets.add(ticket(1, Duration::ZERO)).unwrap();
        tickets.take(&expired, PATH).unwrap_err();
        tickets.take("guessed", PATH).unwrap_err();
        // The attempt to use a ticket for another path uses it up.
        let other = tickets.add(one).unwrap();
        tickets.take(&other, "/api/v1/other").unwrap_err();
        tickets.take(&other, PATH).unwrap_err();
    }

    #[test]
    fn unused_tickets_are_limited_for_each_tenant() {
        let tickets = Tickets::default();
        for _ in 0..MAX_TICKETS {
            tickets.add(ticket(1, LIFETIME)).unwrap();
        }
        let refused = tickets.add(ticket(1, LIFETIME)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::RateLimited);
        tickets.add(ticket(2, LIFETIME)).unwrap();
    }
}
