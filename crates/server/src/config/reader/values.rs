//! Readers of single values.

use crate::config::{Secret, WarmPool};
use elevo_api::NetworkMode;
use elevo_catalog::PostgresCatalog;
use ipnet::IpNet;
use reqwest::Url;
use std::net::IpAddr;

/// Maximum sandboxes of one warm pool.
const MAX_WARM: u32 = 1000;

pub(super) fn public_url(text: &str) -> Result<Option<Url>, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is not a URL: {error}"))?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    match url.scheme() {
        "http" | "https" if is_plain => Ok(Some(url)),
        _ => Err(format!(
            "`{text}` must begin with http:// or https:// and have no user, query or fragment"
        )),
    }
}

/// Reads the URL of a database. An error does not contain the URL, which can
/// have a password.
pub(super) fn database_url(text: &str) -> Result<Option<Secret>, String> {
    match PostgresCatalog::check_url(text) {
        Ok(()) => Ok(Some(Secret(text.to_owned()))),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the URL of a service of the bucket.
pub(super) fn endpoint(text: &str) -> Result<Option<String>, String> {
    public_url(text).map(|url| url.map(|url| url.as_str().trim_end_matches('/').to_owned()))
}

/// Reads a domain in lower case, with an optional port.
pub(super) fn ports_domain(text: &str) -> Result<Option<String>, String> {
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, port.parse::<u16>().is_ok_and(|port| port > 0)),
        None => (text, true),
    };
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_plain);
    match port && name.len() <= 190 && name.split('.').all(is_label) {
        true => Ok(Some(text.to_owned())),
        false => Err(format!(
            "`{text}` is not a domain in lower case, such as sandboxes.example.com"
        )),
    }
}

/// Maximum terminals of one sandbox: a container has at most 30
/// pseudo-terminals, and programs in it need some of them.
const MAX_TERMINALS: u32 = 20;

pub(super) fn terminals(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count @ 1..=MAX_TERMINALS) => Ok(count),
        _ => Err(format!(
            "`{text}` is not a number from 1 to {MAX_TERMINALS}"
        )),
    }
}

/// Reads the maximum number of requests to the ports of a sandbox. A workspace
/// agent allows 256 tunnels, and idle connections use some of them.
pub(super) fn port_requests(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count @ 1..=200) => Ok(count),
        _ => Err(format!("`{text}` is not a whole number from 1 to 200")),
    }
}

pub(super) fn networks(text: &str) -> Result<Vec<IpNet>, String> {
    let parse = |one: &str| {
        let address = one.parse::<IpAddr>().map(IpNet::from);
        let parsed = address.or_else(|_| one.parse::<IpNet>());
        parsed.map_err(|_| {
            format!("`{one}` is neither an IP address nor a network such as 10.0.0.0/8")
        })
    };
    names(text).map(parse).collect()
}

/// Reads origins in the form in which browsers send them.
pub(super) fn origins(text: &str) -> Result<Vec<String>, String> {
    let check = |one: &str| {
        let url = Url::parse(one).map(|url| (url.origin().ascii_serialization(), url));
        match url {
            _ if one.contains('*') => Err(format!("`{one}` has a `*`; list each origin")),
            Ok((origin, url)) if origin == one && url.scheme().starts_with("http") => Ok(origin),
            _ => Err(format!(
                "`{one}` is not an origin such as https://app.example.com or \
                 http://localhost:3000, without a path and without a default port"
            )),
        }
    };
    names(text).map(check).collect()
}

/// Splits a list at its commas.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    let names = text.split(',').map(str::trim);
    names.filter(|name| !name.is_empty())
}

/// Returns the default user of sandboxes. A server that does not run as root
/// cannot change the owner of files. So its sandboxes run as the user of the
/// server, who can write to the files.
pub(super) fn user_by_default(own: (u32, u32)) -> (u32, u32) {
    match own.0 {
        0 => (64000, 64000),
        _ => own,
    }
}

pub(super) fn check_user(own: (u32, u32), chosen: (u32, u32)) -> Result<(), String> {
    match own.0 == 0 || own.0 == chosen.0 {
        true => Ok(()),
        false => Err(format!(
            "SANDBOX_USER: {}:{} cannot write to workspaces of a server that runs as user {}: \
             remove the setting, or run the server as root",
            chosen.0, chosen.1, own.0
        )),
    }
}

pub(super) fn output_buffer(text: &str) -> Result<u32, String> {
    let size = elevo_api::parse_size(text).map_err(|error| error.to_string())?;
    match u32::try_from(size) {
        Ok(size @ 0x1_0000..=0x400_0000) => Ok(size),
        _ => Err(format!("`{text}` is not between 64k and 64m")),
    }
}

pub(super) fn some_number(text: &str) -> Result<Option<u32>, String> {
    match text.parse() {
        Ok(number @ 1..) => Ok(Some(number)),
        _ => Err(format!("`{text}` is not a number of at least 1")),
    }
}

pub(super) fn some_size(text: &str) -> Result<Option<u64>, String> {
    let size = elevo_api::parse_limit(text);
    size.map(Some).map_err(|error| error.to_string())
}

pub(super) fn percent(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(percent @ 1..=100) => Ok(percent),
        _ => Err(format!("`{text}` is not a whole number from 1 to 100")),
    }
}

pub(super) fn truth(text: &str) -> Result<bool, String> {
    let truth = text.parse();
    truth.map_err(|_| format!("`{text}` is neither true nor false"))
}

pub(super) fn network(text: &str) -> Result<NetworkMode, String> {
    match text {
        "none" => Ok(NetworkMode::None),
        "internet" => Ok(NetworkMode::Internet),
        _ => Err(format!("`{text}` is neither none nor internet")),
    }
}

/// Parses `python:3.11=5; node:22=2 network=none runtime=runsc`.
pub(super) fn warm_pools(text: &str) -> Result<Vec<WarmPool>, String> {
    let pools = text.split(';').map(str::trim);
    let pools = pools.filter(|pool| !pool.is_empty()).map(warm_pool);
    pools.collect()
}

pub(super) fn warm_pool(text: &str) -> Result<WarmPool, String> {
    let mut words = text.split_whitespace();
    let pool = words.next().and_then(|word| word.rsplit_once('='));
    let size = pool.and_then(|(_, size)| size.parse().ok());
    let (Some((template, _)), Some(size @ 1..=MAX_WARM)) = (pool, size) else {
        let form = "TEMPLATE=COUNT [network=…] [runtime=…]";
        return Err(format!(
            "`{text}` is not {form} with a count of 1 to {MAX_WARM}"
        ));
    };
    let mut pool = WarmPool {
        template: template.into(),
        size,
        network: None,
        runtime: None,
    };
    for word in words {
        match word.split_once('=') {
            Some(("network", name)) => pool.network = Some(network(name)?),
            Some(("runtime", name)) => pool.runtime = Some(name.into()),
            _ => return Err(format!("`{word}` is neither network=… nor runtime=…")),
        }
    }
    Ok(pool)
}

pub(super) fn user(text: &str) -> Result<(u32, u32), String> {
    let ids = text.split_once(':').unwrap_or((text, text));
    match (ids.0.parse(), ids.1.parse()) {
        (Ok(0), _) | (_, Ok(0)) => Err("sandboxes never run as root".into()),
        (Ok(user), Ok(group)) => Ok((user, group)),
        _ => Err(format!("`{text}` is not UID:GID")),
    }
}

/// Reads the provider of new workspaces.
pub(super) fn provider(text: &str) -> Result<Option<String>, String> {
    match text {
        "overlay" | "reflink" | "copy" => Ok(Some(text.to_owned())),
        _ => Err(format!("`{text}` is not overlay, reflink or copy")),
    }
}

/// Reads the key of the owner. Rejects a key that is so short that it could be
/// guessed.
pub(super) fn api_key(text: &str) -> Result<Option<Secret>, String> {
    match text.len() {
        32.. => Ok(Some(Secret(text.into()))),
        length => Err(format!("{length} characters are too few; use at least 32")),
    }
}
