//! The ways to a bucket: credentials of the machine's role, and a private
//! authority.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::net::SocketAddr;
use std::sync::Arc;

use elevo_store_cluster::{BucketOptions, ClusterStore, Credentials, Options};
use elevo_testkit::s3::S3;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Writes, reads and deletes a file. No database is needed for that.
async fn try_out(bucket: BucketOptions) -> Result<(), String> {
    let options = Options::new("postgres://nowhere/none", bucket);
    let tried = ClusterStore::try_bucket(&options).await;
    tried.map_err(|error| format!("{error:?}"))
}

fn bucket(s3: &S3, endpoint: &str, credentials: Credentials) -> BucketOptions {
    BucketOptions {
        prefix: s3.prefix.clone(),
        retry: std::time::Duration::from_secs(2),
        ..BucketOptions::at(endpoint, &s3.bucket, credentials)
    }
}

fn keys(s3: &S3) -> Credentials {
    Credentials::Keys {
        key: s3.key.clone(),
        secret: s3.secret.clone(),
    }
}

/// Starts a metadata service of a cloud, which has the credentials of the role
/// `elevo`. Returns its URL.
async fn metadata_service(s3: &S3) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (key, secret) = (&s3.key, &s3.secret);
    let credentials = format!(
        "{{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"{key}\",\
          \"SecretAccessKey\":\"{secret}\",\"Token\":\"\",\"LastUpdated\":\"2026-01-01T00:00:00Z\",\
          \"Expiration\":\"2100-01-01T00:00:00Z\"}}"
    );
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer(stream, credentials.clone()));
        }
    });
    url
}

/// Answers the requests of a connection to the metadata service.
async fn answer(stream: TcpStream, credentials: String) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut first, mut has_token) = (String::new(), false);
        if stream.read_line(&mut first).await.unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            has_token |= line.to_ascii_lowercase().contains("token: the-token");
            if line.trim().is_empty() {
                break;
            }
        }
        let path = first.split(' ').nth(1).unwrap_or_default();
        let role = "/latest/meta-data/iam/security-credentials/";
        let (status, body) = match path {
            "/latest/api/token" => ("200 OK", "the-token"),
            _ if !has_token => ("401 Unauthorized", ""),
            _ if path == role => ("200 OK", "elevo"),
            _ if path == format!("{role}elevo") => ("200 OK", credentials.as_str()),
            _ => ("404 Not Found", ""),
        };
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn the_credentials_can_be_those_of_the_machine() {
    let s3 = S3::new();
    let endpoint = Some(metadata_service(&s3).await);
    let role = Credentials::Instance { endpoint };
    try_out(bucket(&s3, &s3.endpoint, role)).await.unwrap();
}

#[tokio::test]
async fn the_prefix_can_be_empty_or_have_several_parts() {
    let s3 = S3::new();
    for prefix in [String::new(), format!("{}/a/b", s3.prefix)] {
        let bucket = BucketOptions {
            prefix,
            ..bucket(&s3, &s3.endpoint, keys(&s3))
        };
        try_out(bucket).await.unwrap();
    }
}

#[tokio::test]
async fn a_wrong_secret_is_an_error_that_does_not_show_it() {
    let s3 = S3::new();
    let wrong = Credentials::Keys {
        key: s3.key.clone(),
        secret: "wrong-secret".into(),
    };
    let error = try_out(bucket(&s3, &s3.endpoint, wrong)).await.unwrap_err();
    assert!(!error.contains("wrong-secret"), "{error}");
}

/// Starts a proxy with a certificate of a private authority in front of a server.
/// Returns its address, and the certificate of the authority as PEM.
async fn tls_proxy(server: SocketAddr) -> (SocketAddr, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = own.signed_by(&key, &issuer).unwrap();
    let secret = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)
            .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut secure) = acceptor.accept(stream).await else {
                    return;
                };
                let mut plain = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut secure, &mut plain).await;
            });
        }
    });
    (address, issuer.pem())
}

#[tokio::test]
async fn a_private_authority_is_trusted_if_it_is_named() {
    let s3 = S3::new();
    let (address, authority) = tls_proxy(s3.address()).await;
    let endpoint = format!("https://{address}");
    let unknown = bucket(&s3, &endpoint, keys(&s3));
    try_out(unknown.clone()).await.unwrap_err();
    let known = BucketOptions {
        authorities: Some(authority.into_bytes()),
        ..unknown
    };
    try_out(known).await.unwrap();
}
