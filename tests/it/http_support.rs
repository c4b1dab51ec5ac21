//! A listener on loopback and a client that speaks raw bytes to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hookledger::base::clock::{Clock, SystemClock};
use hookledger::base::ids::RandomIds;
use hookledger::base::shutdown::Shutdown;
use hookledger::http::layers::{Common, wrap};
use hookledger::http::peers::Peers;
use hookledger::http::serve::{ServeSettings, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Long enough for anything that is to happen at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// A timeout that is itself the subject.
pub(crate) const SHORT: Duration = Duration::from_millis(200);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) stop: Shutdown,
}

pub(crate) fn settings() -> ServeSettings {
    ServeSettings {
        header_timeout: PATIENCE,
        write_timeout: PATIENCE,
        max_connections: 100,
        max_connections_per_address: 100,
        peers: Peers::default(),
        on_connections: |_| {},
    }
}

impl Server {
    pub(crate) async fn start(router: Router, settings: ServeSettings) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let common = Common {
            clock: Arc::clone(&clock),
            ids: Arc::new(RandomIds::from_system()),
            peers: settings.peers.clone(),
        };
        let stop = Shutdown::new(clock);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = serve(listener, wrap(router, common), settings, stop.clone());
        stop.spawn("listener", serving);
        Self { address, stop }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends `request` on a connection of its own and reads to the end.
    pub(crate) async fn exchange(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        read_to_end(&mut stream).await
    }
}

/// What the other side sends until it closes; fails when it does not close.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut all))
        .await
        .unwrap()
        .unwrap();
    String::from_utf8(all).unwrap()
}

/// Reads until `stop_at` has been seen.
pub(crate) async fn read_until(stream: &mut TcpStream, stop_at: &str) -> String {
    let mut all = String::new();
    while !all.contains(stop_at) {
        let mut part = [0; 4096];
        let n = tokio::time::timeout(PATIENCE, stream.read(&mut part))
            .await
            .unwrap()
            .unwrap();
        assert!(n > 0, "closed after {all:?}");
        all.push_str(std::str::from_utf8(part.get(..n).unwrap()).unwrap());
    }
    all
}
