//! The two listening sockets: handed down by whoever started the process, or bound here.
//!
//! Problem: between the end of one process and the start of the next nobody listens, and whoever
//! connects then is refused. A proxy in front does not repeat such a delivery by itself.
//!
//! Design: systemd's socket activation (`LISTEN_FDS`, `LISTEN_PID`, `LISTEN_FDNAMES`), as `systemd`, its
//! `systemd-socket-activate` and other supervisors speak it. Whoever keeps the socket open keeps its
//! queue: connections made meanwhile wait there for the next process. A socket named `admin` is the
//! operator's listener, any other one the public one; what is not handed down is bound as configured.

use std::io;
use std::net::SocketAddr;

use listenfd::ListenFd;
use tokio::net::TcpListener;

use crate::config::Settings;

/// The name of a socket that is the operator's listener.
const ADMIN: &str = "admin";

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// An address cannot be bound.
    #[error(
        "cannot listen on {address} ({key}){}",
        if source.kind() == io::ErrorKind::AddrInUse { "; is the port taken?" } else { "" }
    )]
    Bind {
        /// It.
        address: SocketAddr,
        /// Where it is configured.
        key: &'static str,
        /// Why.
        source: io::Error,
    },
    /// What was handed down is no listening TCP socket.
    #[error("socket {number} that was handed down (LISTEN_FDS) cannot be used: {source}")]
    NoListener {
        /// Its number among them.
        number: usize,
        /// Why.
        source: io::Error,
    },
    /// More sockets than there are listeners.
    #[error(
        "two sockets that were handed down (LISTEN_FDNAMES) would be the {which} listener; name \
         the operator's `admin`, and hand down one of each at most"
    )]
    Twice {
        /// The listener.
        which: &'static str,
    },
}

/// Sockets that were handed down to this process.
#[derive(Debug, Default)]
pub struct Inherited {
    public: Option<std::net::TcpListener>,
    admin: Option<std::net::TcpListener>,
}

impl Inherited {
    /// Takes what was handed down. To be called once in the life of a process.
    ///
    /// # Errors
    /// Something was handed down that cannot be used.
    pub fn take() -> Result<Self, ListenError> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let (mut handed, mut taken) = (ListenFd::from_env(), Self::default());
        for number in 0..handed.len() {
            let name = names.next().unwrap_or_default();
            let socket = handed
                .take_tcp_listener(number)
                .and_then(|socket| {
                    let socket = socket.ok_or(io::ErrorKind::NotFound)?;
                    // One that is only bound looks the same, and nobody could ever connect to it.
                    if !rustix::net::sockopt::socket_acceptconn(&socket)? {
                        return Err(io::Error::other("it does not listen"));
                    }
                    socket.set_nonblocking(true)?;
                    Ok(socket)
                })
                .map_err(|source| ListenError::NoListener { number, source })?;
            let (place, which) = if name == ADMIN {
                (&mut taken.admin, "admin")
            } else {
                (&mut taken.public, "public")
            };
            if place.replace(socket).is_some() {
                return Err(ListenError::Twice { which });
            }
        }
        Ok(taken)
    }
}

/// What the service listens on.
#[derive(Debug)]
pub struct Listeners {
    /// Where deliveries come in.
    pub public: TcpListener,
    /// The operator's.
    pub admin: TcpListener,
}

impl Listeners {
    /// Takes the inherited ones into use and binds those that are missing.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub async fn open(settings: &Settings, inherited: Inherited) -> Result<Self, ListenError> {
        Ok(Self {
            public: open(inherited.public, settings.server.listen, "server.listen").await?,
            admin: open(inherited.admin, settings.admin.listen, "admin.listen").await?,
        })
    }
}

async fn open(
    inherited: Option<std::net::TcpListener>,
    address: SocketAddr,
    key: &'static str,
) -> Result<TcpListener, ListenError> {
    let opened = match inherited {
        Some(socket) => TcpListener::from_std(socket),
        None => TcpListener::bind(address).await,
    };
    opened.map_err(|source| ListenError::Bind {
        address,
        key,
        source,
    })
}
