//! Hosts of ports: `{port}-{sandbox}.DOMAIN`.

use axum::http::{HeaderMap, Uri, header};
use elevo_core::{ErrorCode, SandboxId};

use crate::app::ports::port::Port;
use crate::config::Config;
use crate::failure::{Failure, Result, short};

/// The host of a request that names a port of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortHost {
    pub(super) sandbox: SandboxId,
    pub(super) port: Port,
    /// The host as the client sent it, with its port if there is one.
    pub(super) authority: String,
}

/// Returns the port that the host of a request names, or `None` if the host is
/// that of the API. Fails if the host is neither, so that the API is not served
/// on a host of sandboxes.
pub(super) fn of_request(
    config: &Config,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Option<PortHost>> {
    let Some(domain) = &config.ports_domain else {
        return Ok(None);
    };
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    let invalid = || Failure::invalid("the request must have one valid `Host`");
    if hosts.next().is_some() {
        return Err(invalid());
    }
    let host = host.map(|host| host.to_str().map_err(|_| invalid()));
    let host = host.transpose()?.map(str::to_ascii_lowercase);
    let host = match (uri.authority(), host) {
        (Some(named), Some(host)) if !host.eq_ignore_ascii_case(named.as_str()) => {
            return Err(invalid());
        }
        (_, Some(host)) => host,
        // Only HTTP/1.0 allows a request without a host.
        (_, None) => return Ok(None),
    };
    let public = config.public_url.as_ref().and_then(|url| url.host_str());
    named(domain, public, &host)
}

/// Returns the port that a host in lower case names.
fn named(domain: &str, public: Option<&str>, host: &str) -> Result<Option<PortHost>> {
    let (name, number) = match host.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (host, None),
    };
    let domain = domain.split_once(':').map_or(domain, |(name, _)| name);
    let below = name.strip_suffix('.').unwrap_or(name);
    let below = below.strip_suffix(domain).unwrap_or_default();
    let Some(label) = below.strip_suffix('.') else {
        return Ok(None);
    };
    if public == Some(name) {
        return Ok(None);
    }
    let is_plain =
        !name.ends_with('.') && number.is_none_or(|number| number.parse::<Port>().is_ok());
    let (port, sandbox) = label.split_once('-').unwrap_or_default();
    match (port.parse(), sandbox.parse()) {
        (Ok(port), Ok(sandbox)) if is_plain => Ok(Some(PortHost {
            sandbox,
            port,
            authority: host.to_owned(),
        })),
        _ => {
            let message = format!(
                "the host `{}` does not name a port of a sandbox",
                short(host)
            );
            Err(Failure::new(ErrorCode::NotFound, message)
                .remediation(format!("Use a host of the form PORT-SANDBOX.{domain}.")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_names_a_port_only_in_one_form() {
        let of = |host: &str| named("box.example.com:8443", Some("api.box.example.com"), host);
        let found = of("3000-sbx-a2.box.example.com:8443").unwrap().unwrap();
        assert_eq!(found.sandbox.as_str(), "sbx-a2");
        assert_eq!(found.port.number(), 3000);
        assert_eq!(found.authority, "3000-sbx-a2.box.example.com:8443");
        assert!(of("3000-sbx-a2.box.example.com").unwrap().is_some());
        for api in [
            "box.example.com",
            "api.box.example.com",
            "api.box.example.com:8443",
            "127.0.0.1:8080",
            "[::1]:8080",
            "3000-sbx-a2.other.com",
            "3000-sbx-a2box.example.com",
            "3000-sbx-a2.box.example.com.evil.com",
            "",
        ] {
            assert_eq!(of(api).unwrap(), None, "{api}");
        }
        for wrong in [
            "sbx-a2.box.example.com",
            "3000.box.example.com",
            "03000-sbx-a2.box.example.com",
            "0-sbx-a2.box.example.com",
            "70000-sbx-a2.box.example.com",
            "3000-a2.box.example.com",
            "3000-sbx-.box.example.com",
            "x.3000-sbx-a2.box.example.com",
            "3000-sbx-a2.x.box.example.com",
            "3000-sbx-a2.box.example.com.",
            "3000-sbx-a2.box.example.com:",
            "3000-sbx-a2.box.example.com:x",
            "3000-sbx-a2.box.example.com:80:80",
            ".box.example.com",
            "user@3000-sbx-a2.box.example.com",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
