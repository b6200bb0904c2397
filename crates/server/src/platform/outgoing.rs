//! Outgoing requests of the server, only to public addresses unless the
//! settings allow others. Tenants choose the addresses, and must not use the
//! server to reach services that they cannot reach themselves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url};

/// Installs the cryptography provider of TLS clients. Must be called before the
/// first client is created; further calls have no effect.
pub fn choose_cryptography() {
    // An error means that a provider was already chosen.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Creates a client that follows no redirects, uses no proxy, and connects only
/// to public addresses unless `allow_private` is set.
pub(crate) fn client(timeout: Duration, allow_private: bool) -> anyhow::Result<Client> {
    choose_cryptography();
    let client = || {
        Client::builder()
            .timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(4)
            .pool_idle_timeout(Duration::from_secs(30))
            .user_agent(concat!("elevo/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Arc::new(Public { allow_private }))
    };
    client().build().or_else(|error| {
        let cause = format!("{:#}", anyhow::Error::from(error));
        tracing::warn!(
            cause,
            "requests to https addresses will fail; install the package ca-certificates and \
             restart the server"
        );
        Ok(client().tls_certs_only([]).build()?)
    })
}

/// Checks the URL of an outgoing request. The addresses of a host name are
/// checked again when the name is resolved.
pub(crate) fn check_url(text: &str, allow_private: bool) -> Result<Url, String> {
    if text.len() > 2048 {
        return Err("the URL has more than 2048 bytes".into());
    }
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("the URL must begin with http:// or https://".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL must not contain a user name or a password".into());
    }
    let host = url.host_str().ok_or("the URL has no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) if !allow_private && !may_reach(address) => Err(format!(
            "{address} is not a public address, which is allowed only if \
             WEBHOOK_ALLOW_PRIVATE is set"
        )),
        _ => Ok(url),
    }
}

/// Resolves names, and leaves out addresses that are not public unless they are
/// allowed.
struct Public {
    allow_private: bool,
}

impl Resolve for Public {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<_> = found
                .filter(|address| allow_private || may_reach(address.ip()))
                .collect();
            if found.is_empty() {
                return Err("the name has no public address".into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Returns whether the server may send to an address. Public addresses of this
/// machine are excluded, because they may lead to services that only the
/// machine itself may reach.
fn may_reach(address: IpAddr) -> bool {
    is_public(address) && !is_of_this_machine(address)
}

/// Returns whether an address belongs to this machine: a socket can be bound
/// only to such addresses.
fn is_of_this_machine(address: IpAddr) -> bool {
    std::net::UdpSocket::bind((address, 0)).is_ok()
}

/// Returns whether an address is on the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !special
}

/// Returns whether an address is global unicast and not reserved for a special
/// purpose. An IPv4-mapped address counts as its IPv4 address.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let [a, b, ..] = address.segments();
    let is_global = (0x2000..0x4000).contains(&a);
    // These ranges are for Teredo and other special purposes, for
    // documentation, and for 6to4.
    let is_special = (a == 0x2001 && (b < 0x200 || b == 0xdb8)) || a == 0x2002 || a == 0x3fff;
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_on_the_internet_are_public() {
        for public in [
            "1.1.1.1",
            "93.184.216.34",
            "100.128.0.1",
            "172.32.0.1",
            "2606:4700::1111",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "fc00::1",
            "fe80::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }

    #[test]
    fn recognizes_addresses_of_this_machine() {
        assert!(is_of_this_machine("127.0.0.1".parse().unwrap()));
        assert!(!is_of_this_machine("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn rejects_urls_that_are_invalid_or_not_public() {
        for right in [
            "https://example.com/a?b",
            "http://1.1.1.1:8080",
            "http://[2606:4700::1]/",
        ] {
            assert!(check_url(right, false).is_ok(), "{right}");
        }
        for wrong in [
            "",
            "example.com",
            "ftp://example.com",
            "file:///etc/passwd",
            "http://a:b@example.com",
            "http://127.0.0.1",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://[::1]:80/",
            "http://[::ffff:169.254.169.254]/",
        ] {
            assert!(check_url(wrong, false).is_err(), "{wrong}");
        }
        assert!(check_url("http://127.0.0.1:1", true).is_ok());
    }
}
