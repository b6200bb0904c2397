//! Removes the server's own secrets from the query of a request.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::failure::{Failure, Result};

/// The parameter with the token of a link.
pub(super) const LINK: &str = "elevo-link";

/// The parameter with a ticket, which other routes accept.
const TICKET: &str = "ticket";

/// Bytes of a ticket.
const TICKET_BYTES: usize = 32;

/// The query of a request without the server's own secrets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cleaned {
    /// The other parameters, as the client wrote them.
    pub(super) query: Option<String>,
    /// The token of a link.
    pub(super) link: Option<String>,
}

/// Separates the server's own secrets from the other parameters.
pub(super) fn clean(query: Option<&str>) -> Result<Cleaned> {
    let mut cleaned = Cleaned {
        query: None,
        link: None,
    };
    let Some(query) = query else {
        return Ok(cleaned);
    };
    let mut kept = Vec::new();
    for part in query.split('&') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match decoded(name).as_slice() {
            name if name == LINK.as_bytes() => {
                let token = String::from_utf8_lossy(&decoded(value)).into_owned();
                if cleaned.link.replace(token).is_some() {
                    let message = format!("the query has more than one `{LINK}`");
                    return Err(Failure::invalid(message));
                }
            }
            name if name == TICKET.as_bytes() && is_ticket(&decoded(value)) => {}
            _ => kept.push(part),
        }
    }
    let is_unchanged = kept.len() == query.split('&').count();
    let kept = kept.join("&");
    cleaned.query = (is_unchanged || !kept.is_empty()).then_some(kept);
    Ok(cleaned)
}

/// Returns true if a value has the form of the server's tickets. A program may
/// have a parameter of the same name.
fn is_ticket(value: &[u8]) -> bool {
    let bytes = URL_SAFE_NO_PAD.decode(value);
    bytes.is_ok_and(|bytes| bytes.len() == TICKET_BYTES)
}

/// Decodes percent signs and `+`.
fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let pair = text.get(at + 1..at + 3);
        let pair = pair.filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let encoded = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (byte, encoded) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(*byte),
        }
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_secrets_are_removed_from_a_query() {
        let ticket = "A".repeat(43);
        let cases = [
            (None, None, None),
            (Some(""), Some(""), None),
            (Some("a=1&b=%20&&c"), Some("a=1&b=%20&&c"), None),
            (Some("elevo-link=t"), None, Some("t")),
            (Some("a=1&elevo%2Dlink=t%2e&b"), Some("a=1&b"), Some("t.")),
            (Some("%65levo-link=t&x"), Some("x"), Some("t")),
            (Some("ticket=mine&x"), Some("ticket=mine&x"), None),
            (Some("elevo-links=t"), Some("elevo-links=t"), None),
            (Some("a=%&b=%zz&c=%4"), Some("a=%&b=%zz&c=%4"), None),
        ];
        for (query, kept, link) in cases {
            let cleaned = clean(query).unwrap();
            assert_eq!(cleaned.query.as_deref(), kept, "{query:?}");
            assert_eq!(cleaned.link.as_deref(), link, "{query:?}");
        }
        let with = format!("x=1&ticket={ticket}&tick%65t={ticket}");
        assert_eq!(clean(Some(&with)).unwrap().query.as_deref(), Some("x=1"));
        clean(Some("elevo-link=a&elevo-link=b")).unwrap_err();
    }
}
