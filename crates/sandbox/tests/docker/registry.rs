//! A registry on loopback with one small image. It implements the part of the
//! protocol that an engine needs to pull the image.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use crate::support::host;

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

const UNKNOWN: &[u8] = br#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#;

/// The files of the image `/small:1`, each with the end of its URL path, and
/// the `Authorization` header that a request must have, if any.
#[derive(Debug)]
struct Contents(Vec<(String, Vec<u8>)>, Option<&'static str>);

/// Serves the image until the process ends. Returns the address of the
/// registry.
pub(crate) fn serve() -> SocketAddr {
    serve_to(None)
}

/// Serves the image only to requests with this `Authorization` header.
pub(crate) fn serve_to(authorization: Option<&'static str>) -> SocketAddr {
    let contents = Arc::new(Contents::new(authorization));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let contents = Arc::clone(&contents);
            // An engine tries TLS first. The attempt fails, because a TLS
            // handshake is not a valid HTTP request.
            std::thread::spawn(move || contents.answer(&stream.unwrap()));
        }
    });
    address
}

impl Contents {
    fn new(authorization: Option<&'static str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("file"), "in the image\n").unwrap();
        host(&["tar", "-C", &path(""), "-cf", &path("layer"), "file"]);
        let plain = digest(&path("layer"));
        host(&["gzip", &path("layer")]);
        let layer = (
            digest(&path("layer.gz")),
            fs::read(path("layer.gz")).unwrap(),
        );
        let config = format!(
            r#"{{"architecture":"amd64","os":"linux","config":{{}},"rootfs":{{"type":"layers","diff_ids":["{plain}"]}}}}"#
        );
        fs::write(path("config"), &config).unwrap();
        let config = (digest(&path("config")), config.into_bytes());
        let part = |kind: &str, (digest, bytes): &(String, Vec<u8>)| {
            let size = bytes.len();
            format!(r#"{{"mediaType":"{kind}","size":{size},"digest":"{digest}"}}"#)
        };
        let manifest = format!(
            r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{},"layers":[{}]}}"#,
            part(CONFIG, &config),
            part(LAYER, &layer)
        );
        fs::write(path("manifest"), &manifest).unwrap();
        let name = digest(&path("manifest"));
        let manifest = manifest.into_bytes();
        let parts = vec![
            ("/manifests/1".to_owned(), manifest.clone()),
            (format!("/manifests/{name}"), manifest),
            (format!("/blobs/{}", config.0), config.1),
            (format!("/blobs/{}", layer.0), layer.1),
        ];
        Self(parts, authorization)
    }

    /// Handles one request, then closes the connection.
    fn answer(&self, stream: &TcpStream) -> Option<()> {
        let mut lines = BufReader::new(stream).split(b'\n');
        let request = String::from_utf8(lines.next()?.ok()?).ok()?;
        let (method, rest) = request.split_once(' ')?;
        let path = rest.split(' ').next()?;
        let mut is_allowed = self.1.is_none();
        loop {
            let line = String::from_utf8(lines.next()?.ok()?).ok()?;
            if line == "\r" {
                break;
            }
            let (name, value) = line.split_once(':')?;
            is_allowed |=
                name.eq_ignore_ascii_case("authorization") && Some(value.trim()) == self.1;
        }
        let found = self.0.iter().find(|(end, _)| path.ends_with(end));
        let (status, body) = match found {
            _ if !is_allowed => (
                "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"r\"",
                UNKNOWN,
            ),
            Some((_, body)) => ("200 OK", &**body),
            None if path == "/v2/" => ("200 OK", &b"{}"[..]),
            None => ("404 Not Found", UNKNOWN),
        };
        let kind = if path.contains("/manifests/") {
            MANIFEST
        } else {
            "application/octet-stream"
        };
        let size = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\
             Docker-Distribution-Api-Version: registry/2.0\r\nConnection: close\r\n\r\n"
        );
        let mut stream = stream;
        stream.write_all(head.as_bytes()).ok()?;
        if method != "HEAD" {
            stream.write_all(body).ok()?;
        }
        Some(())
    }
}

fn digest(path: &str) -> String {
    assert!(Path::new(path).exists());
    let sum = host(&["sha256sum", path]);
    format!("sha256:{}", sum.split(' ').next().unwrap())
}
