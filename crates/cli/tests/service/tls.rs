//! A server with a certificate, and clients that know its authority or do not.

use std::fs;

use elevo_testkit::wait;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::server::{Ended, Server, elevo};

/// Writes an authority to `ca.pem`, a certificate of it to `cert.pem` and the key
/// to `key.pem`.
fn certify(server: &Server, names: &[&str]) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(names).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let at = |name: &str| server.directory.path().join(name);
    fs::write(at("ca.pem"), authority.pem()).unwrap();
    fs::write(at("cert.pem"), certificate.pem()).unwrap();
    fs::write(at("key.pem"), key.serialize_pem()).unwrap();
}

fn up(server: &mut Server) -> String {
    let mut command = server.up_command();
    command
        .current_dir(server.directory.path())
        .env("TLS_CERT", "cert.pem")
        .env("TLS_KEY", "key.pem");
    let told = server.up_by(command);
    told["server"].as_str().unwrap().to_owned()
}

/// Runs a command with the address of a server, as from another machine.
fn ask(server: &Server, url: &str, more: &[&str]) -> Ended {
    let key = server.data().join("owner.key");
    let asked = elevo()
        .current_dir(server.directory.path())
        .args(["project", "ls", "--json", "--server", url, "--key-file"])
        .arg(key)
        .args(more)
        .output();
    Ended::new(asked.unwrap())
}

#[test]
fn commands_speak_tls_to_the_server_on_this_machine_and_to_others() {
    let mut server = Server::new();
    certify(&server, &["localhost"]);
    let url = up(&mut server);
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    // The certificate is for another host name, but it is the server's own.
    server.ok(["project", "create", "site"]);
    let listed = server.ok(["project", "ls"]);
    assert!(listed.contains("site"), "{listed}");

    let url = url.replace("127.0.0.1", "localhost");
    let unknown = ask(&server, &url, &[]);
    assert_eq!(unknown.name(), "server_unreachable", "{}", unknown.stderr);
    assert!(unknown.stderr.contains("--ca FILE"), "{}", unknown.stderr);
    let known = ask(&server, &url, &["--ca", "ca.pem"]).text();
    assert!(known.contains("site"), "{known}");
    let wrong_name = ask(
        &server,
        &url.replace("localhost", "127.0.0.1"),
        &["--ca", "ca.pem"],
    );
    assert_eq!(wrong_name.name(), "server_unreachable");
    let nothing = ask(&server, &url, &["--ca", "key.pem"]);
    assert_eq!(
        (nothing.code, nothing.name().as_str()),
        (2, "authorities_invalid")
    );

    // New connections use a new certificate, and local commands trust it.
    let before = fs::read(server.directory.path().join("cert.pem")).unwrap();
    certify(&server, &["localhost"]);
    assert_ne!(
        fs::read(server.directory.path().join("cert.pem")).unwrap(),
        before
    );
    wait::until("the server uses the new certificate", || {
        let renewed = ask(&server, &url, &["--ca", "ca.pem"]);
        (renewed.code == 0).then_some(())
    });
    server.ok(["project", "ls"]);
}
