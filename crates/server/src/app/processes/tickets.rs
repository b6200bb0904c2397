//! Tickets for terminals, for clients that cannot send a key: a page in a browser
//! cannot set the headers of a WebSocket.
//!
//! Tickets are in memory only. A restart of the server invalidates them, and the
//! client requests another one.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use elevo_core::{ErrorCode, KeyId, SandboxId, TenantId, Timestamp};
use parking_lot::Mutex;

use crate::failure::{Failure, Result};
use crate::platform::clock;

/// Time for which a ticket is valid.
pub(crate) const TICKET_LIFETIME: Duration = Duration::from_secs(30);

/// Maximum number of unused tickets of a tenant.
const MAX_TICKETS: usize = 100;

/// The right to connect to one terminal once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) tenant: TenantId,
    /// The key that created the ticket. It must still be valid when the ticket
    /// is used.
    pub(crate) key: KeyId,
    pub(crate) sandbox: SandboxId,
    pub(crate) pty: String,
    pub(crate) expires: Timestamp,
}

/// The unused tickets, by the hash of their secret. A lookup by hash takes the
/// same time however much of a guessed secret is right.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<HashMap<[u8; 32], Ticket>>);

impl Tickets {
    /// Adds a ticket and returns its secret. Fails if the tenant has too many
    /// unused tickets.
    pub(crate) fn add(&self, ticket: Ticket) -> Result<String> {
        let now = clock::now();
        let mut tickets = self.0.lock();
        tickets.retain(|_, ticket| ticket.expires > now);
        let of_tenant = tickets.values().filter(|one| one.tenant == ticket.tenant);
        if of_tenant.count() >= MAX_TICKETS {
            let message = format!("this tenant has {MAX_TICKETS} unused tickets for terminals");
            let wait = TICKET_LIFETIME.as_secs() as u32;
            return Err(Failure::new(ErrorCode::RateLimited, message).retry_after(wait));
        }
        let secret = URL_SAFE_NO_PAD.encode(clock::random::<32>());
        tickets.insert(hash(&secret), ticket);
        Ok(secret)
    }

    /// Removes a ticket, which is then used up. Fails if it is unknown, used or
    /// expired.
    pub(crate) fn take(&self, secret: &str) -> Result<Ticket> {
        let ticket = self.0.lock().remove(&hash(secret));
        let valid = ticket.filter(|ticket| ticket.expires > clock::now());
        valid.ok_or_else(|| {
            let message = "this ticket is not known, was used, or has expired";
            Failure::new(ErrorCode::Unauthorized, message)
                .remediation("Request another ticket for the terminal.")
        })
    }
}

fn hash(secret: &str) -> [u8; 32] {
    blake3::derive_key("elevo server 2026-11-18 terminal ticket", secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use elevo_core::Id;

    use super::*;

    fn ticket(tenant: u8, lifetime: Duration) -> Ticket {
        Ticket {
            tenant: TenantId::new([tenant; 16]),
            key: KeyId::from_bytes(&[1; 16]),
            sandbox: SandboxId::from_bytes(&[2; 16]),
            pty: "pty-1".into(),
            expires: clock::after(clock::now(), lifetime),
        }
    }

    #[test]
    fn a_ticket_is_valid_once_and_until_it_expires() {
        let tickets = Tickets::default();
        let one = ticket(1, TICKET_LIFETIME);
        let secret = tickets.add(one.clone()).unwrap();
        assert_eq!(tickets.take(&secret).unwrap(), one);
        assert_eq!(
            tickets.take(&secret).unwrap_err().code,
            ErrorCode::Unauthorized
        );
        let expired = tickets.add(ticket(1, Duration::ZERO)).unwrap();
        tickets.take(&expired).unwrap_err();
        tickets.take("guessed").unwrap_err();
    }

    #[test]
    fn unused_tickets_are_limited_for_each_tenant() {
        let tickets = Tickets::default();
        for _ in 0..MAX_TICKETS {
            tickets.add(ticket(1, TICKET_LIFETIME)).unwrap();
        }
        let refused = tickets.add(ticket(1, TICKET_LIFETIME)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::RateLimited);
        tickets.add(ticket(2, TICKET_LIFETIME)).unwrap();
    }
}
