//! Ports of sandboxes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use elevo_testkit::wait;
use serde_json::Value;

use crate::server::Server;

/// A program that responds to each request on port 3000.
const PROGRAM: &str = r#"perl -MIO::Socket::INET -e '
    my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:3000", Listen => 5) or die;
    while (my $c = $s->accept) {
        while (<$c>) { last if /^\r?$/ }
        print $c "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\ninside";
        close $c;
    }'"#;

/// Sends a request, and returns the response.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    // A connection that is closed before its request is read may be reset.
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn a_program_in_a_sandbox_is_reached_from_this_machine() {
    let server = Server::start();
    let id = server.sandbox();
    server.ok(["exec", "-b", &id, "--", PROGRAM]);
    let forward = ["port", "forward", &id, "3000:0", "--json"];
    let mut forward = server.command(forward);
    let forward = forward.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut forward = forward.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(forward.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let listening: Value = serde_json::from_str(&line).expect(&line);
    assert_eq!(
        (&listening["sandbox"], &listening["port"]),
        (&id.as_str().into(), &3000.into())
    );
    let address = listening["address"].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    wait::until("the program responds", || {
        get(address, "/").ends_with("inside").then_some(())
    });

    let taken = address.rsplit(':').next().unwrap();
    let second = server.run(["port", "forward", &id, &format!("3000:{taken}"), "--json"]);
    assert_eq!(second.name(), "cannot_listen");
    forward.kill().unwrap();
    forward.wait().unwrap();

    let url = server.ok(["port", "link", &id, "3000", "--expires", "5m"]);
    let (address, path) = url
        .trim()
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let response = get(address, &format!("/{path}"));
    assert!(response.ends_with("inside"), "{response}");
    let link = server.ok(["port", "link", &id, "3000", "--json"]);
    let link: Value = serde_json::from_str(&link).unwrap();
    assert!(link["expiresAt"].is_string(), "{link}");
    let long = server.run(["port", "link", &id, "3000", "--expires", "25h", "--json"]);
    assert_eq!((long.code, long.name().as_str()), (2, "invalid_request"));
}
