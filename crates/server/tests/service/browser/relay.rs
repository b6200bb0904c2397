use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A relay in front of a server, which can cut all connections.
pub(super) struct Relay {
    pub(super) url: String,
    cuts: watch::Sender<u32>,
}

impl Relay {
    pub(super) async fn to(server: &str) -> Self {
        let server = server.split_once("://").unwrap().1.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (cuts, cut) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (server, mut cut) = (server.clone(), cut.clone());
                cut.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(server).await else {
                        return;
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { url, cuts }
    }

    /// Closes all connections. New ones are possible at once.
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }
}
