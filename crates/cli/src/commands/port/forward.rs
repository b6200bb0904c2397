use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use clap::Args;
use reqwest::header::{CONNECTION, UPGRADE};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::client::{Call, Client, ClientError};
use crate::errors::SandboxProblem;
use crate::output::notes::print_note;

/// Maximum connections at a time. Further connections wait.
const MOST: usize = 128;

/// Listen on this machine, and connect to a port of a sandbox
#[derive(Debug, Args)]
#[command(after_help = "\
Listens on 127.0.0.1 only, until Ctrl-C. Every connection is carried as TCP, so
that any protocol works: HTTP, WebSockets, databases. A server behind a proxy
needs one that passes on the header `Upgrade`.

Examples:
  elevo port forward \"$id\" 3000
  elevo port forward \"$id\" 5432:15432      listen on port 15432
  elevo port forward \"$id\" 3000:0 --json   listen on any free port, and print it")]
pub(super) struct Forward {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    sandbox: String,

    /// The port in the sandbox, and the port on this machine if it differs
    #[arg(value_name = "PORT[:LOCAL]", value_parser = ports)]
    ports: (u16, u16),
}

/// Reads the port in the sandbox and the one on this machine.
fn ports(text: &str) -> Result<(u16, u16), String> {
    let (port, local) = text.split_once(':').unwrap_or((text, text));
    match (port.parse(), local.parse()) {
        (Ok(port @ 1..), Ok(local)) => Ok((port, local)),
        _ => Err("use a port from 1 to 65535, such as 3000 or 3000:8080".to_owned()),
    }
}

pub(super) fn run(call: &mut Call, args: &Forward) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.sandbox)?;
    let (port, local) = args.ports;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, local));
    let listener = call.wait(TcpListener::bind(address));
    let listener = listener.map_err(|source| SandboxProblem::Listen { address, source })?;
    let address = listener.local_addr()?;
    match call.output.is_json() {
        true => {
            let listening = json!({"sandbox": id, "port": port, "address": address.to_string()});
            call.output.value(&listening)?;
        }
        false => {
            let line = format!("Forwarding {address} to port {port} of {id}; Ctrl-C ends it");
            call.output.line(line)?;
        }
    }
    call.output.finish()?;
    let serving = serve(listener, call.client.clone(), id, port);
    call.wait(async {
        tokio::select! {
            served = serving => served,
            interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
        }
    })
}

async fn serve(
    listener: TcpListener,
    client: Client,
    sandbox: String,
    port: u16,
) -> anyhow::Result<()> {
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let place = places.clone().acquire_owned().await?;
        let (stream, _) = listener.accept().await?;
        let (client, sandbox) = (client.clone(), sandbox.clone());
        tokio::spawn(async move {
            if let Err(error) = carry(stream, &client, &sandbox, port).await {
                print_note(&format!("cannot connect to port {port}: {error}"));
            }
            drop(place);
        });
    }
}

/// Carries one connection.
async fn carry(
    mut local: TcpStream,
    client: &Client,
    sandbox: &str,
    port: u16,
) -> Result<(), ClientError> {
    let port = port.to_string();
    let request = client
        .request(Method::GET, &sandbox_path(sandbox, &["ports", &port]))
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, "elevo-tcp");
    let answer = request.send().await.map_err(|error| client.lost(error))?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(client.refused(answer).await);
    }
    let upgraded = answer.upgrade().await;
    let mut remote = upgraded.map_err(|error| client.lost(error))?;
    // An error means that one of the two is gone.
    let _ = copy_bidirectional(&mut local, &mut remote).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_number_or_two() {
        assert_eq!(ports("3000"), Ok((3000, 3000)));
        assert_eq!(ports("3000:80"), Ok((3000, 80)));
        assert_eq!(ports("3000:0"), Ok((3000, 0)));
        for wrong in ["", "0", "0:3000", "70000", "x", "1:", ":1", "1:2:3"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}
